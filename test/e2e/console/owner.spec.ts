import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { type Locator, type Page } from 'playwright-core';
import { browsing, describeInBrowser, expectAccessible } from '../../support/browser.js';
import { Beside, openConsole } from '../../support/console-page.js';
import { runCli } from '../../support/http-cli.js';
import { served } from '../../support/http-client.js';
import { until } from '../../support/waiting.js';

const fern = { id: 1, name: 'Nephrolepis exaltata', tag: 'fern' };
const cactus = { id: 2, name: 'Opuntia microdasys', tag: 'cactus' };

describeInBrowser('an owner at the console', () => {
  const browser = browsing();
  const { service } = served();
  /** Each test has an owner of its own. */
  let owner: string;
  let owners = 0;
  let beside: Beside;

  const begin = async (path?: string, ...plants: (typeof fern)[]): Promise<Page> => {
    owner = `owner-${++owners}`;
    beside = await Beside.of(service, owner);
    if (plants.length > 0) await beside.add(...plants);
    return openConsole(browser, service, { owner, ...(path !== undefined && { path }) });
  };
  const row = (page: Page, name: string): Locator => page.getByRole('row').filter({ hasText: name });

  it('adds a plant, and is told what is wrong with every field', async () => {
    const page = await begin();
    await page.getByText('There are no plants here.').waitFor();
    await page.getByLabel('Id', { exact: true }).fill('seven');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    const name = page.getByLabel('Name', { exact: true });
    await until(async () => (await name.getAttribute('aria-invalid')) === 'true');
    expect(await page.getByLabel('Id', { exact: true }).getAttribute('aria-invalid')).toBe('true');
    await page.getByText('must be an integer').waitFor();
    await name.fill(fern.name);
    await page.getByLabel('Tag', { exact: true }).fill(fern.tag);
    await page.getByLabel('Id', { exact: true }).fill('1');
    await page.keyboard.press('Enter');
    await row(page, fern.name).waitFor();
    expect(await beside.list()).toEqual([fern]);
    expect(await name.inputValue()).toBe('');
    await name.fill('Another');
    await page.getByLabel('Id', { exact: true }).fill('1');
    await page.keyboard.press('Enter');
    await until(
      async () => (await page.getByLabel('Id', { exact: true }).getAttribute('aria-invalid')) === 'true',
    );
    expect(await beside.list()).toEqual([fern]);
  });

  it('deletes a plant, and takes it back', async () => {
    const page = await begin('plants', fern, cactus);
    await page.getByRole('button', { name: `Delete ${fern.name}` }).click();
    await row(page, fern.name).waitFor({ state: 'detached' });
    expect(await beside.list()).toEqual([cactus]);
    await page.getByRole('button', { name: 'Undo' }).click();
    await row(page, fern.name).waitFor();
    expect(await beside.list()).toEqual([fern, cactus]);
  });

  it('sees what others do', async () => {
    const page = await begin('plants', fern);
    await page.getByText('Live', { exact: true }).waitFor();
    await beside.add(cactus);
    await row(page, cactus.name).waitFor();
    await beside.delete(fern.id);
    await row(page, fern.name).waitFor({ state: 'detached' });
  });

  it('goes through pages, searches one, and jumps to an id', async () => {
    const page = await begin(
      'plants',
      ...Array.from({ length: 150 }, (_, index) => ({
        id: index + 1,
        name: `Plant no. ${index + 1}`,
        tag: '',
      })),
    );
    await page.getByText('100 plants on this page').waitFor();
    await page.getByLabel('Search this page').fill('NO. 99');
    await page.getByText('1 of 100 plants on this page').waitFor();
    expect(new URL(page.url()).searchParams.get('q')).toBe('NO. 99');
    await page.getByLabel('Search this page').fill('');
    await page.getByRole('link', { name: 'Next page' }).click();
    await page.getByText('50 plants on this page').waitFor();
    await page.goBack();
    await page.getByText('100 plants on this page').waitFor();
    await page.getByLabel('Go to the plant with the id').fill('142');
    await page.keyboard.press('Enter');
    await page
      .getByRole('region', { name: 'Plant 142' })
      .getByRole('heading', { name: 'Plant no. 142' })
      .waitFor();
    await page.getByLabel('Go to the plant with the id').fill('999');
    await page.keyboard.press('Enter');
    await page.getByText('You have never had a plant 999.').waitFor();
  });

  it('reads what has happened to a plant, and sees the list as it was then', async () => {
    const page = await begin('plants', fern);
    await beside.delete(fern.id);
    await beside.add({ ...fern, name: 'Boston fern' });
    await beside.add(cactus);
    await page.getByRole('link', { name: 'Boston fern' }).click();
    const panel = page.getByRole('region', { name: 'Plant 1' });
    await panel.getByRole('listitem').nth(2).waitFor();
    expect(await panel.getByRole('listitem').allTextContents()).toEqual([
      expect.stringContaining('Added as Boston fern'),
      expect.stringContaining('Deleted'),
      expect.stringContaining(`Added as ${fern.name}`),
    ]);
    expect(await panel.getByRole('listitem').nth(0).textContent()).toMatch(/\d\d UTC/);
    await panel.getByRole('listitem').nth(2).getByRole('link', { name: 'The list then' }).click();
    await row(page, fern.name).waitFor();
    await row(page, cactus.name).waitFor({ state: 'detached' });
    expect(await page.getByRole('button', { name: /^Delete/ }).count()).toBe(1); // of the plant itself
    await page.getByRole('button', { name: 'Back to now' }).click();
    await row(page, cactus.name).waitFor();
  });

  it('moves the list through time', async () => {
    const page = await begin('plants', fern);
    await row(page, fern.name).waitFor();
    await page.getByRole('button', { name: 'As it was' }).click();
    const slider = page.getByRole('slider', { name: 'Moment' });
    await slider.press('Home');
    await page.getByText('There are no plants here.').waitFor();
    expect(new URL(page.url()).searchParams.get('asOf')).toMatch(/Z$/);
    await slider.press('End');
    await row(page, fern.name).waitFor();
  });

  it('imports a file, whose refusals are told by line, and which is safe to be sent again', async () => {
    const page = await begin();
    const file = [
      ...[
        '\uFEFF"name",tag,id',
        `${fern.name},${fern.tag},1`,
        ',no name,3',
        '"Aloe, ""vera""",kitchen,4',
        'x,y',
      ],
    ].join('\r\n');
    const choose = async (): Promise<void> => {
      await page.getByRole('button', { name: 'Import' }).click();
      await page
        .getByLabel('A file')
        .setInputFiles({ name: 'p.csv', mimeType: 'text/csv', buffer: Buffer.from(file) });
      await page.getByText('3 plants in CSV').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
      await page.getByText('The import is done').waitFor();
    };
    await choose();
    const refusals = page.getByRole('region', { name: 'Refused lines' });
    expect(await refusals.getByRole('listitem').allTextContents()).toEqual([
      expect.stringMatching(/Line 3: name must/),
      expect.stringContaining('Line 5: has 2 fields'),
    ]);
    const saving = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save the refused lines' }).click();
    expect(readFileSync(await (await saving).path(), 'utf8')).toBe('\uFEFFname,tag,id\r\n,no name,3\nx,y\n');
    await page.getByRole('button', { name: 'Close', exact: true }).last().click();
    await row(page, 'Aloe, "vera"').waitFor();
    await choose();
    await page.getByRole('dialog').getByText('there already').waitFor();
    expect(await beside.list()).toEqual([fern, { id: 4, name: 'Aloe, "vera"', tag: 'kitchen' }]);
  });

  it('exports what can be imported again', async () => {
    const page = await begin('plants', fern, { id: -3, name: 'a "b", c', tag: '' });
    await row(page, fern.name).waitFor();
    const saved = async (format: string): Promise<string> => {
      await page.getByRole('button', { name: 'Export' }).click();
      await page.getByRole('radio', { name: format }).check();
      const saving = page.waitForEvent('download');
      await page.getByRole('button', { name: 'Save' }).click();
      return readFileSync(await (await saving).path(), 'utf8');
    };
    expect(await saved('CSV')).toBe(`\uFEFFname,tag,id\r\n"a ""b"", c",,-3\r\n${fern.name},fern,1\r\n`);
    expect(await saved('NDJSON')).toBe(
      `{"name":"a \\"b\\", c","tag":"","id":-3}\n{"name":"${fern.name}","tag":"fern","id":1}\n`,
    );
  });

  /** Opens the dialog and gives it. */
  const prove = async (page: Page): Promise<Locator> => {
    await row(page, fern.name).waitFor();
    await page.getByRole('button', { name: 'Prove', exact: true }).click();
    return page.getByRole('dialog', { name: 'Prove this list' });
  };

  it('proves the list with a key that it trusts, and saves a proof that others can check', async () => {
    const page = await begin('plants', fern, cactus);
    const dialog = await prove(page);
    await dialog.getByText('Consistent, but not proven.').waitFor();
    const vkey = (await runCli(['audit-key'], service.env)).stdout.trim();
    await dialog.getByLabel('Keys of the log').fill(vkey);
    await dialog.getByRole('button', { name: 'Trust these keys' }).click();
    await dialog.getByText('Proven.').waitFor();
    await dialog.getByText(`These 2 plants of ${owner} were there, and no others.`).waitFor();
    await dialog.getByText('They are the plants that this page shows.').waitFor();
    await expectAccessible(page);
    const saving = page.waitForEvent('download');
    await dialog.getByRole('button', { name: 'Save the proof' }).click();
    const file = await (await saving).path();
    const checked = await runCli(['check', file, '--key', vkey, '--owner', owner], {});
    expect([checked.stderr, checked.status]).toEqual(['', 0]);
    expect(checked.stdout).toContain(fern.name);
  });

  it('is told that a list has changed since, and proves it again', async () => {
    const page = await begin('plants', fern);
    const dialog = await prove(page);
    await dialog.getByText('They are the plants that this page shows.').waitFor();
    await beside.add(cactus);
    await dialog
      .getByText('This page shows something else. The first plant that differs has the id 2.')
      .waitFor();
    await dialog.getByRole('button', { name: 'Prove it again' }).click();
    await dialog.getByText('They are the plants that this page shows.').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  /** Has proofs changed on their way to a page. */
  const forge = (page: Page, forged: (proof: string) => string): Promise<unknown> =>
    page.route('**/log/list*', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: forged(await response.text()) });
    });

  it('refuses a proof of which a name was changed on the way, and takes the true one', async () => {
    const page = await begin('plants', fern);
    await forge(page, (proof) => proof.replace(fern.name, 'Nephrolepis falcata'));
    const dialog = await prove(page);
    await dialog.getByText('The entries and the proof do not come to the state root.').waitFor();
    await page.unroute('**/log/list*');
    await dialog.getByRole('button', { name: 'Prove it again' }).click();
    await dialog.getByText('They are the plants that this page shows.').waitFor();
  });

  it('refuses the proof of another list', async () => {
    const other = await Beside.of(service, 'somebody else');
    await other.add(fern);
    const proof = await other.proof();
    const page = await begin('plants', fern);
    await forge(page, () => proof);
    const dialog = await prove(page);
    await dialog.getByText('It is the list of another owner, "somebody else".').waitFor();
  });

  it('is not shown what the token does not allow', async () => {
    const page = await openConsole(browser, service, { owner, scope: 'plants:read' });
    await row(page, fern.name).waitFor();
    for (const name of ['Import', 'Add', `Delete ${fern.name}`])
      expect(await page.getByRole('button', { name, exact: true }).count()).toBe(0);
  });
});

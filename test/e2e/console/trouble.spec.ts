import { expect, it } from '@jest/globals';
import { type Page } from 'playwright-core';
import { loadConfig } from '../../../src/service/config.js';
import { signToken } from '../../../src/cli/token.js';
import { browsing, describeInBrowser, expectAccessible, picture } from '../../support/browser.js';
import { Beside, openConsole } from '../../support/console-page.js';
import { served } from '../../support/http-client.js';
import { until } from '../../support/waiting.js';

const fern = { id: 1, name: 'Nephrolepis exaltata', tag: 'fern' };

/** A problem document, as the service answers it for a while. */
const notNow = (code: string, title: string, seconds: number) => ({
  status: 503,
  headers: { 'retry-after': String(seconds), 'content-type': 'application/problem+json' },
  body: JSON.stringify({ status: 503, code, title, detail: `${title}.` }),
});

describeInBrowser('the console in trouble', () => {
  const browser = browsing();
  const { service } = served();
  let beside: Beside;
  let owners = 0;

  const begin = async (plant = fern): Promise<Page> => {
    const owner = `owner-${++owners}`;
    beside = await Beside.of(service, owner);
    await beside.add(plant);
    const page = await openConsole(browser, service, { owner });
    await page.getByRole('row').nth(1).waitFor();
    return page;
  };
  const type = async (page: Page, name: string, id: string): Promise<void> => {
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('Id', { exact: true }).fill(id);
  };
  const add = (page: Page) => page.getByRole('button', { name: 'Add', exact: true }).click();

  it.each([
    ['markup', '<img src=x onerror="document.title=1"><script>document.title=1</script>'],
    ['right to left', 'شجرة '.repeat(40).slice(0, 200)],
    ['an override of the direction', 'safe\u202Egpj.exe\u2066'],
    ['zero width', 'a\u200B\u200D\u2060b'],
    ['combining', `Z${'\u0336\u0353\u034D\u0301'.repeat(45)}`],
    ['one long word', 'W'.repeat(200)],
    ['spaces', '  two  spaces  '],
  ])('shows a name as it is: %s', async (what, name) => {
    const page = await begin({ id: 1, name, tag: name });
    const link = page.getByRole('row').nth(1).getByRole('link');
    expect(await link.textContent()).toBe(name);
    await link.click();
    await page.getByRole('region', { name: 'Plant 1' }).getByRole('listitem').first().waitFor();
    expect(await page.title()).toBe('Plants · Plant store');
    expect(await page.locator('img, main script').count()).toBe(0);
    // Nothing of it is out of the page's width.
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await picture(page, `name-${what.replaceAll(' ', '-')}`);
    await page
      .getByRole('button', { name: /^Delete/ })
      .first()
      .click();
    await page.getByRole('button', { name: 'Undo' }).click();
    await until(async () => (await page.getByRole('row').nth(1).getByRole('link').textContent()) === name);
    await until(async () => ((await beside.list()) as unknown[]).length > 0); // the page shows it before the service has it
    expect(await beside.list()).toEqual([{ id: 1, name, tag: name }]);
  });

  it('says that it is offline, keeps what was typed, and goes on by itself', async () => {
    const page = await begin();
    await page.getByText('Live', { exact: true }).waitFor();
    await type(page, 'Typed before', '7');
    await page.context().setOffline(true);
    await page.getByText('You are offline.').waitFor();
    await add(page);
    await page.getByRole('button', { name: 'Adding…' }).waitFor();
    await picture(page, 'offline');
    await page.context().setOffline(false);
    await page.getByRole('row').filter({ hasText: 'Typed before' }).waitFor();
    await page.getByText('You are offline.').waitFor({ state: 'detached' });
    await page.getByText('Live', { exact: true }).waitFor();
    expect(await beside.list()).toEqual([fern, { id: 7, name: 'Typed before', tag: '' }]);
  });

  it('asks for another token when the first one has expired, and keeps what was typed', async () => {
    const page = await begin();
    const owner = `owner-${owners}`;
    const { token } = await signToken(loadConfig(service.env), { owner, expires: '3s' }, new Date());
    await page.goto(`${service.url}/console/plants`);
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await type(page, 'Typed before', '7');
    await page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
    await page.getByText('Your token has expired.').waitFor();
    await expectAccessible(page);
    await picture(page, 'expired');
    await page.getByLabel('Token').fill(await service.token(owner));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Typed before');
    await add(page);
    await page.getByRole('row').filter({ hasText: 'Typed before' }).waitFor();
  });

  it('asks for another token when the service refuses this one', async () => {
    const page = await begin();
    await page.route('**/plants', (route) =>
      route.fulfill({
        status: 401,
        headers: { 'content-type': 'application/problem+json' },
        body: JSON.stringify({
          status: 401,
          code: 'token_invalid',
          title: 't',
          detail: 'The key is not known.',
        }),
      }),
    );
    await type(page, 'Typed before', '7');
    await add(page);
    await page.getByRole('dialog', { name: 'Sign in again' }).getByText('The key is not known.').waitFor();
  });

  it('waits while the service cannot answer, says why, and adds once', async () => {
    const page = await begin();
    let refused = 0;
    await page.route('**/plants', async (route) => {
      refused += 1;
      if (refused > 2) await route.continue();
      else await route.fulfill(notNow('outcome_unknown', 'It is not known whether the write took place', 1));
    });
    await type(page, 'Once', '7');
    await add(page);
    await page.getByText('It is not known whether the write took place.').waitFor();
    await page.getByRole('row').filter({ hasText: 'Once' }).waitFor();
    expect(refused).toBe(3);
    expect(await beside.list()).toEqual([fern, { id: 7, name: 'Once', tag: '' }]);
  });

  it('goes on with an import that was broken off in the middle', async () => {
    const page = await begin();
    let broken = 0;
    await page.route('**/plants/import', async (route) => {
      broken += 1;
      if (broken === 1) await route.abort('connectionreset');
      else await route.continue();
    });
    const plants = Array.from({ length: 1_200 }, (_, index) => ({
      id: index + 10,
      name: `n${index}`,
      tag: '',
    }));
    await page.getByRole('button', { name: 'Import' }).click();
    await page.getByLabel('Or paste its lines').fill(plants.map((plant) => JSON.stringify(plant)).join('\n'));
    await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
    await page.getByText('The import is done').waitFor();
    expect(broken).toBe(4);
    const all = (await beside.list()) as unknown[];
    expect(all).toHaveLength(100);
  });

  it('says that a page cannot be loaded any more, as after an upgrade of the service', async () => {
    const page = await browser.page(service.url);
    await page.route('**/plants-page.js', (route) => route.fulfill({ status: 404 }));
    await page.goto(`/console/plants#token=${await service.token('alice')}`);
    await page.getByText('This page could not be loaded.').waitFor();
    expect(browser.complaints.splice(0)).toEqual([expect.stringContaining('404')]);
    await page.unroute('**/plants-page.js');
    await page.getByRole('button', { name: 'Load again' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  it('mends itself when the service is restarted', async () => {
    const page = await begin();
    await page.getByText('Live', { exact: true }).waitFor();
    const { port } = service;
    await service.stop();
    await page.getByText('The service cannot be reached.').waitFor();
    await service.start({ PORT: String(port) });
    await service.ready();
    await page.getByText('Live', { exact: true }).waitFor();
    await page.getByText('The service cannot be reached.').waitFor({ state: 'detached' });
    await beside.add({ id: 9, name: 'After the restart', tag: '' });
    await page.getByRole('row').filter({ hasText: 'After the restart' }).waitFor();
  });
});

import { join } from 'node:path';
import { beforeAll, expect, it } from '@jest/globals';
import { type Locator, type Page } from 'playwright-core';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { plantStream } from '../../../src/domain/stream.js';
import {
  browsing,
  describeInBrowser,
  TestBrowser,
  expectAccessible,
  picture,
} from '../../support/browser.js';
import { runCli } from '../../support/http-cli.js';
import { known } from '../../support/domain-model.js';
import { appendRaw } from '../../support/domain-stores.js';
import { served } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { newEventLog, serverOf } from '../../support/stores-of-this-run.js';

/** So many events are not rebuilt at one a second before a test is done with it. */
const PLANTS = 120;

const WIDTHS = [360, 1_280, 2_560];

const SCOPES = 'plants:read plants:write plants:operate plants:erase';

// One story: each test goes on where the one before has ended.
describeInBrowser('the page of operators', () => {
  const browser = browsing();
  const { service } = served();
  let olga: string;
  beforeAll(async () => {
    olga = await service.token('olga', SCOPES, 'console');
    const authorization = `Bearer ${await service.token('gardener')}`;
    for (let id = 1; id <= PLANTS; id += 1) {
      const body = JSON.stringify({ name: `fern ${id}`, tag: '', id });
      const headers = { authorization, 'content-type': 'application/json', prefer: 'respond-async' };
      expect((await fetch(`${service.url}/plants`, { method: 'POST', headers, body })).status).toBe(201);
    }
  });

  const open = async (look = {}, token = olga): Promise<Page> => {
    const page = await browser.page(service.url, look);
    await page.goto(`/console/operations#token=${token}`);
    return page;
  };
  const well = (page: Page): Promise<void> =>
    page
      .getByRole('status')
      .getByRole('heading', { name: /^All is well/ })
      .waitFor();
  const button = (within: Page | Locator, name: string): Locator =>
    within.getByRole('button', { name, exact: true });
  const said = (page: Page, text: string): Promise<void> =>
    page.getByRole('status', { name: 'Notices' }).getByText(text).last().waitFor();
  /** The rows of past operations that have all of these texts. */
  const past = (page: Page, ...texts: string[]): Locator =>
    texts.reduce(
      (rows, hasText) => rows.filter({ hasText }),
      page.getByRole('table', { name: 'Operations, the newest first' }).getByRole('row'),
    );

  it.each(WIDTHS.flatMap((width) => [false, true].map((dark) => ({ width, dark }))))(
    'says in a second that all is well: %j',
    async ({ width, dark }) => {
      const page = await open({ width, dark });
      await well(page);
      await page.getByText('Live', { exact: true }).waitFor();
      const row = page.getByRole('table', { name: 'Processes' }).getByRole('row').nth(1);
      await row.getByText('api, projector, auditor').waitFor();
      await row.getByText(`/${service.pid}`).waitFor();
      await page.getByRole('img', { name: /^Lists behind, in events, .*: now 0 events/ }).waitFor();
      await page.getByRole('table', { name: 'Trees' }).getByText('live').waitFor();
      await expectAccessible(page);
      await picture(page, `operator-${width}${dark ? '-dark' : ''}`);
      // Only tables scroll sideways.
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    },
  );

  it('rebuilds the lists, and rolls back, each with one question', async () => {
    const page = await open();
    await button(page, 'Rebuild…').click();
    const asked = page.getByRole('dialog', { name: 'Rebuild the lists?' });
    await asked.getByText('you can go back').waitFor();
    await asked.getByLabel('At most so many events a second').fill('many');
    await asked.getByText('Must be a whole number').waitFor();
    expect(await button(asked, 'Rebuild').isDisabled()).toBe(true);
    await asked.getByLabel('At most so many events a second').fill('');
    await expectAccessible(page);
    await button(asked, 'Rebuild').click();
    await said(page, 'A rebuild is requested.');
    await said(page, 'The rebuild was promoted.');
    await past(page, 'Rebuild', 'olga', 'with console', 'done').waitFor();

    await button(page, 'Roll back…').click();
    const back = page.getByRole('dialog', { name: 'Roll the rebuild back?' });
    await back.getByLabel('Why').fill('lists look <b>odd</b>');
    await button(back, 'Roll back').click();
    await said(page, 'The rebuild was rolled back.');
    await past(page, 'Rollback', 'lists look <b>odd</b>', 'done').waitFor();
  });

  it('compares the lists with the log and the signed state, and says what was found', async () => {
    const page = await open();
    await button(page, 'Compare now').click();
    await page.getByText(/^120 plants of 1 owner compared: the lists say what the log says/).waitFor();
    await page.getByText(/The log comes to the state that was signed with \d+ events/).waitFor();
    await page.getByText('they agree').waitFor();
    await expectAccessible(page);
  });

  it('lifts an alarm of the auditor, once a reason was typed', async () => {
    const { origin } = JSON.parse((await runCli(['audit-key', '--json'], service.env)).stdout) as {
      origin: string;
    };
    const tree = await openSqliteTreeStore(join(service.dataDir, 'tree.db'), origin.replace('plants/', ''));
    await tree.raise({
      kind: 'changed',
      index: 2,
      message: 'raised by a test',
      raisedAt: new Date().toISOString(),
    });
    const page = await open();
    await button(page, 'Lift the alarm…').click();
    const asked = page.getByRole('dialog', { name: 'Lift the alarm?' });
    expect(await button(asked, 'Lift the alarm').isDisabled()).toBe(true);
    await asked.getByLabel('Why').fill('it was a test');
    await expectAccessible(page);
    await button(asked, 'Lift the alarm').click();
    await said(page, 'The alarm is lifted: the auditor reads the whole log before it signs.');
    expect(await tree.alarm()).toBeUndefined();
    await tree.close();
    await well(page);
  });

  it('shows how far a rebuild is, and cancels it', async () => {
    const page = await open();
    await button(page, 'Rebuild…').click();
    await page.getByLabel('At most so many events a second').fill('1');
    await page.keyboard.press('Enter');
    await page.getByRole('progressbar', { name: 'Progress of the rebuild' }).waitFor();
    await page.getByText(/^Building, \d+ %/).waitFor();
    await page.getByText(/of 12\d events, \d+ a second/).waitFor();
    await picture(page, 'operator-rebuild');
    await expectAccessible(page);
    await button(page, 'Cancel the rebuild…').click();
    const asked = page.getByRole('dialog', { name: 'Cancel the rebuild?' });
    await asked.waitFor();
    await page.keyboard.press('Escape'); // nothing is cancelled
    await asked.waitFor({ state: 'detached' });
    await button(page, 'Cancel the rebuild…').click();
    await button(asked, 'Cancel the rebuild').click();
    await said(page, 'The rebuild is cancelled.');
    await past(page, 'Rebuild', 'olga', 'cancelled', 'by olga').first().waitFor();
    await button(page, 'Rebuild…').waitFor();
  });

  it('shows an event that cannot be read as it stands, and skips it once its position was typed', async () => {
    const stream = plantStream('<img src=x onerror=alert(1)>', 9);
    const { id, position } = await service.writing(async (log) => {
      await appendRaw(log, stream, 'PlantWatered', { id: 9 });
      return known(await log.readLast(stream));
    });
    const page = await open();
    await page.getByRole('status').getByRole('heading', { name: '1 problem' }).waitFor();
    await page.getByText('the lists of 1 owner are not answered, for events that cannot be read').waitFor();
    const row = page.getByRole('table', { name: 'Unread events' }).getByRole('row').nth(1);
    for (const text of [position, `${stream}@0`, 'unknown type "PlantWatered"'])
      await row.getByText(text).waitFor();
    await picture(page, 'operator-unread');
    await expectAccessible(page);
    await button(row, `Skip the event at ${position}`).click();
    const asked = page.getByRole('dialog', { name: 'Skip this event?' });
    await asked.getByLabel('Why').fill('nobody waters here');
    await asked.getByLabel('Its position, to confirm').fill(position.slice(1));
    expect(await button(asked, 'Skip it').isDisabled()).toBe(true);
    await asked.getByLabel('Its position, to confirm').fill(position);
    await button(asked, 'Skip it').click();
    await well(page);
    await page.getByRole('table', { name: 'Events that were skipped' }).getByText('left out').waitFor();
    await past(page, 'Skip of an event', 'olga', 'nobody waters here', `${id}@0`).waitFor();
  });

  it('erases an owner whose name was typed twice, and says when it is over', async () => {
    const page = await open();
    await button(page, 'Erase an owner…').click();
    const asked = page.getByRole('dialog', { name: 'Erase an owner?' });
    await asked.getByText('It cannot be undone').waitFor();
    await asked.getByLabel('Owner', { exact: true }).fill('nobody');
    await asked.getByLabel('The same owner again').fill('somebody');
    await asked.getByText('Is not the same.').waitFor();
    await asked.getByLabel('Why').fill('request 4711');
    expect(await button(asked, 'Erase for good').isDisabled()).toBe(true);
    await asked.getByLabel('The same owner again').fill('nobody');
    await button(asked, 'Erase for good').click();
    await asked.getByRole('alert').getByText('nothing is to be erased').waitFor();
    for (const label of ['Owner', 'The same owner again'])
      await asked.getByLabel(label, { exact: true }).fill('gardener');
    await button(asked, 'Erase for good').click();
    await said(page, 'The erasure is ordered.');
    await past(page, 'Erasure', 'request 4711', 'done').waitFor();
    expect(await past(page, 'gardener').count()).toBe(0);
  });

  it('says that nothing is known while the service is away, and goes on when it is back', async () => {
    const page = await open();
    await well(page);
    const PORT = String(service.port);
    await service.stop();
    await page.getByRole('status').getByRole('heading', { name: 'Not known at present' }).waitFor();
    await page.getByText('Last known as of').waitFor();
    await service.start({ PORT });
    await well(page);
  });

  it('asks now and then where there is no live stream', async () => {
    const page = await browser.page(service.url);
    await page.route('**/operations/events', (route) =>
      route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"detail":"Too many."}' }),
    );
    await page.goto(`/console/operations#token=${olga}`);
    await page.getByText('Asked for every 6 s').waitFor();
    await well(page);
  });

  it('is not there for others', async () => {
    const page = await open({}, await service.token('bob'));
    await page.getByText('Your token does not allow this page.').waitFor();
    expect(await page.getByRole('link', { name: 'Operations' }).count()).toBe(0);
    const operator = await open({}, await service.token('otto', 'plants:operate'));
    await well(operator);
    expect(await button(operator, 'Erase an owner…').count()).toBe(0);
  });
});

describeInBrowser('the page of operators, where nothing projects', () => {
  it('says what is wrong, and what to do', async () => {
    const service = await TestService.start({
      ...{ EVENT_LOG: newEventLog(), READ_MODEL: serverOf('PLANTS_TEST_REDIS') },
      ROLES: 'api,auditor',
    });
    const browser = await TestBrowser.start();
    try {
      const page = await browser.page(service.url);
      await page.goto(`/console/operations#token=${await service.token('olga', 'plants:operate')}`);
      await page.getByRole('status').getByRole('heading', { name: '2 problems' }).waitFor();
      await page.getByText('nothing projects').waitFor();
      await page.getByText('Start a process that projects.').waitFor();
      await page.getByText('ROLES=projector npx plants serve').first().waitFor();
      await page.getByText('no list is answered').waitFor();
      await picture(page, 'operator-problems');
      await expectAccessible(page);
      await browser.finish();
    } finally {
      await browser.close();
      await service.remove();
    }
  });
});

/**
 * Does five tasks of each kind of user in Chromium, and prints the table of docs/console.md: what the person has to
 * click and to type, how long the page takes, and how long both take: npm run console:tasks
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Locator, type Page } from 'playwright-core';
import { plantStream } from '../../src/domain/stream.js';
import { ensureChromium, launchChromium } from './chromium.js';
import { Beside } from './console-page.js';
import { appendRaw } from './domain-stores.js';
import { HOUSEPLANTS } from './houseplants.js';
import { runCli } from './http-cli.js';
import { TestService } from './service.js';
import { temporaryFolder } from './temporary-folder.js';

/**
 * Seconds of the keystroke-level model (Card, Moran and Newell, Communications of the ACM 23(7), 1980): to think before
 * a step, to point and click, and for a key of an average typist who is no secretary.
 */
const THINK_S = 1.35;
const CLICK_S = 1.1 + 0.2;
const KEY_S = 0.28;

/** Of a choice in the operating system's own dialog for files: a file, and "Open". */
const CLICKS_OF_A_FILE = 2;

/** One who does a task on an open page. */
class Person {
  #clicks = 0;
  #keys = 0;
  #steps = 0;
  readonly #began = performance.now();

  constructor(readonly page: Page) {}

  async click(target: Locator): Promise<void> {
    await target.click();
    this.#clicks += 1;
    this.#steps += 1;
  }

  async type(field: Locator, text: string): Promise<void> {
    await field.fill(text);
    this.#clicks += 1;
    this.#keys += text.length;
    this.#steps += 1;
  }

  async paste(field: Locator, text: string): Promise<void> {
    await this.type(field, text);
    this.#keys += 2 - text.length;
  }

  async press(key: string): Promise<void> {
    await this.page.keyboard.press(key);
    this.#keys += 1;
    this.#steps += 1;
  }

  async choose(input: Locator, file: Parameters<Locator['setInputFiles']>[0]): Promise<void> {
    await input.setInputFiles(file);
    this.#clicks += 1 + CLICKS_OF_A_FILE;
    this.#steps += 2;
  }

  /** The row of a table. */
  told(task: string): string {
    const page = (performance.now() - this.#began) / 1_000;
    const all = page + THINK_S * this.#steps + CLICK_S * this.#clicks + KEY_S * this.#keys;
    return `| ${task} | ${this.#clicks} | ${this.#keys} | ${page.toFixed(1)} s | ${all.toFixed(0)} s |`;
  }
}

const executablePath = ensureChromium();
if (executablePath === undefined) process.exit(1);

const folder = temporaryFolder();
const service = await TestService.start();
await service.ready();
const beside = await Beside.of(service, 'alice');
await beside.add(...HOUSEPLANTS.slice(0, 20));
await (await Beside.of(service, 'bob')).add(...HOUSEPLANTS.slice(20, 40));
await beside.proof();
const vkey = (await runCli(['audit-key'], service.env)).stdout.trim();
const kept = await (await fetch(`${service.url}/log/checkpoint`)).text();
const bundle = join(folder, 'bundle.ndjson.gz');
await runCli(['export', '--out', bundle], service.env);
const browser = await launchChromium(executablePath);

/** Opens a new page, waits until it is there, does a task on it and prints its row. */
const task = async (
  name: string,
  { path, owner, scope }: { readonly path: string; readonly owner: string; readonly scope?: string },
  isThere: (page: Page) => Locator,
  run: (person: Person, page: Page) => Promise<void>,
): Promise<void> => {
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'Europe/Berlin' });
  const page = await context.newPage();
  await page.goto(`${service.url}/console/${path}#token=${await service.token(owner, scope)}`);
  await isThere(page).waitFor();
  const person = new Person(page);
  await run(person, page);
  process.stdout.write(`${person.told(name)}\n`);
  await context.close();
};
const heading = (who: string): void =>
  void process.stdout.write(`\n| ${who} | clicks | keys | of the page | all |\n|---|---|---|---|---|\n`);
const button = (within: Page | Locator, name: string): Locator =>
  within.getByRole('button', { name, exact: true });

const [first] = HOUSEPLANTS;
if (!first) throw new Error('there are no houseplants');
const plants = { path: 'plants', owner: 'alice' };
const listed = (page: Page): Locator => page.getByRole('row').filter({ hasText: first.name }).first();
heading('owner');
await task('add a plant', plants, listed, async (person, page) => {
  await person.type(page.getByLabel('Name', { exact: true }), 'Boston fern');
  await person.type(page.getByLabel('Id', { exact: true }), '5000');
  await person.press('Enter');
  await page.getByRole('row').filter({ hasText: 'Boston fern' }).waitFor();
});
await task('delete a plant, and take it back', plants, listed, async (person, page) => {
  await person.click(page.getByRole('button', { name: 'Delete Boston fern' }));
  await person.click(page.getByRole('button', { name: 'Undo' }));
  await page.getByRole('row').filter({ hasText: 'Boston fern' }).waitFor();
});
await task('read what has happened to a plant', plants, listed, async (person, page) => {
  await person.click(page.getByRole('link', { name: 'Boston fern' }));
  await page.getByRole('region', { name: 'Plant 5000' }).getByRole('listitem').nth(2).waitFor();
});
await task('see the list as it was at first', plants, listed, async (person, page) => {
  await person.click(page.getByRole('button', { name: 'As it was' }));
  await person.click(page.getByRole('slider', { name: 'Moment' }));
  await person.press('Home');
  await page.getByText('There are no plants here.').waitFor();
});
await task('import 1,000 plants', plants, listed, async (person, page) => {
  const lines = Array.from({ length: 1_000 }, (_, index) => `Plant ${index},house,${10_000 + index}`);
  const buffer = Buffer.from(['name,tag,id', ...lines].join('\n'));
  await person.click(page.getByRole('button', { name: 'Import' }));
  await person.choose(page.getByLabel('A file'), { name: 'plants.csv', mimeType: 'text/csv', buffer });
  await person.click(button(page.getByRole('dialog'), 'Import'));
  await page.getByText('The import is done').waitFor();
});
await task('prove the list, with a key that is pasted', plants, listed, async (person, page) => {
  await person.click(button(page, 'Prove'));
  const dialog = page.getByRole('dialog', { name: 'Prove this list' });
  await person.paste(dialog.getByLabel('Keys of the log'), vkey);
  await person.click(dialog.getByRole('button', { name: 'Trust these keys' }));
  await dialog.getByText('Proven.').waitFor();
});

const audits = { owner: 'auditor', scope: 'plants:audit' };
const log = { ...audits, path: 'log' };
const events = (page: Page): Locator =>
  page.getByRole('list', { name: 'Events, the newest first' }).getByRole('listitem').first();
const trust = async (person: Person, page: Page): Promise<void> => {
  const form = page.locator('details', { hasText: 'Keys that you trust' });
  if ((await form.getAttribute('open')) === null) await person.click(form.locator('summary'));
  await person.paste(page.getByLabel('Keys of the log'), vkey);
  await person.click(page.getByRole('button', { name: 'Trust these keys' }));
};
heading('auditor');
await task('find the events of an owner', log, events, async (person, page) => {
  await person.click(page.locator('details', { hasText: 'Filter' }).locator('summary'));
  await person.type(page.getByLabel('Owner'), 'bob');
  await person.click(button(page, 'Show'));
  await page.getByText('20 found in').waitFor();
});
await task(
  'prove an event, with a key that is pasted',
  { ...log, path: 'log?from=7' },
  events,
  async (person, page) => {
    await person.click(page.getByRole('link').filter({ hasText: 'event 7' }));
    await trust(person, page);
    await page.getByRole('region', { name: 'Event 7' }).getByText('Proven.').waitFor();
  },
);
await task('keep an event as a receipt', { ...log, path: 'log?event=7' }, events, async (person, page) => {
  const download = page.waitForEvent('download');
  await person.click(page.getByRole('button', { name: 'Save as a receipt' }));
  await (await download).path();
});
await task(
  'compare the log with a checkpoint that was kept',
  { ...audits, path: 'checkpoints' },
  (page) => page.getByLabel('The checkpoint that you have kept'),
  async (person, page) => {
    await person.paste(page.getByLabel('The checkpoint that you have kept'), kept);
    await person.click(page.getByRole('button', { name: 'Compare' }));
    await page.getByText(/goes on from that of \d+/).waitFor();
  },
);
const fileField = (page: Page): Locator => page.getByLabel('Bundle, receipt, proof of a list, or checkpoint');
await task('check a bundle', { ...audits, path: 'check' }, fileField, async (person, page) => {
  await trust(person, page);
  await person.choose(fileField(page), bundle);
  await page.getByRole('region', { name: 'Result' }).getByText('Proven.').waitFor();
});

const operations = { path: 'operations', owner: 'olga', scope: 'plants:operate plants:erase' };
const well = (page: Page): Locator => page.getByRole('status').getByRole('heading', { name: /^All is well/ });
const said = (page: Page, text: string): Promise<void> =>
  page.getByRole('status', { name: 'Notices' }).getByText(text).last().waitFor();
heading('operator');
await task(
  'see whether all is well',
  operations,
  (page) => page.locator('body'),
  async (_, page) => {
    await well(page).waitFor();
  },
);
await task('rebuild the lists', operations, well, async (person, page) => {
  await person.click(button(page, 'Rebuild…'));
  await person.click(button(page.getByRole('dialog'), 'Rebuild'));
  await said(page, 'The rebuild was promoted.');
});
await task('roll a rebuild back', operations, well, async (person, page) => {
  await person.click(button(page, 'Roll back…'));
  const dialog = page.getByRole('dialog');
  await person.type(dialog.getByLabel('Why'), 'lists look odd');
  await person.click(button(dialog, 'Roll back'));
  await said(page, 'The rebuild was rolled back.');
});
const { position } = await service.writing((log) =>
  appendRaw(log, plantStream('carol', 1), 'PlantWatered', { id: 1 }),
);
await task(
  'skip an event that cannot be read',
  operations,
  (page) => page.getByRole('button', { name: `Skip the event at ${position}` }),
  async (person, page) => {
    await person.click(page.getByRole('button', { name: `Skip the event at ${position}` }));
    const dialog = page.getByRole('dialog', { name: 'Skip this event?' });
    await person.type(dialog.getByLabel('Why'), 'written by a test');
    await person.type(dialog.getByLabel('Its position, to confirm'), position);
    await person.click(button(dialog, 'Skip it'));
    await well(page).waitFor();
  },
);
await task('erase an owner', operations, well, async (person, page) => {
  await person.click(button(page, 'Erase an owner…'));
  const dialog = page.getByRole('dialog', { name: 'Erase an owner?' });
  await person.type(dialog.getByLabel('Owner', { exact: true }), 'bob');
  await person.type(dialog.getByLabel('The same owner again', { exact: true }), 'bob');
  await person.type(dialog.getByLabel('Why'), 'request 4711');
  await person.click(button(dialog, 'Erase for good'));
  const table = page.getByRole('table', { name: 'Operations, the newest first' });
  await table.getByRole('row').filter({ hasText: 'request 4711' }).filter({ hasText: 'done' }).waitFor();
});

await browser.close();
await service.remove();
rmSync(folder, { recursive: true });

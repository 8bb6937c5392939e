import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Locator, type Page } from 'playwright-core';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { formatVerifierKey, parseVerifierKey } from '../../../src/transparency/note.js';
import { verifyReceipt } from '../../../src/transparency/receipt.js';
import { describeInBrowser, expectAccessible, picture, TestBrowser } from '../../support/browser.js';
import { newSigner } from '../../support/audited-log.js';
import { CliProcess } from '../../support/cli-process.js';
import { runCli } from '../../support/http-cli.js';
import { HttpClient } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until, untilSeen } from '../../support/waiting.js';
import { startWitness, type WitnessProcess } from '../../support/witness-process.js';
import { trustOf } from '../../support/verified.js';

/** Names that are shown as they are: markup, right to left, invisible characters, and ones that pile up. */
const ODD_NAMES = [
  '<img src=x onerror=alert(1)><b>bold</b>',
  'نبتة العنكبوت '.repeat(12).trim(),
  `a\u200bb\u202ec${'\u0301'.repeat(40)}d`,
];

describeInBrowser('an auditor in the console', () => {
  let service: TestService;
  let http: HttpClient;
  let browser: TestBrowser;
  let folder: string;
  let witness: WitnessProcess;
  /** Its key of ML-DSA-44. */
  let long: string;
  let vkey: string;
  /** A checkpoint from the beginning. */
  let kept: string;
  let plants = 0;

  beforeAll(async () => {
    folder = temporaryFolder();
    service = await TestService.start();
    await service.ready();
    vkey = (await runCli(['audit-key'], service.env)).stdout.trim();
    witness = await startWitness([
      ...['--name', 'witness.example/w1', '--log', vkey],
      ...['--data', join(folder, 'witness')],
    ]);
    await service.stop();
    long = formatVerifierKey(witness.mlDsa44, 'cosignature');
    await service.start({
      AUDIT_WITNESSES: [witness.vkey, long].map((key) => `${key} ${witness.url}`).join(','),
    });
    await service.ready();
    http = new HttpClient(service);
    for (const name of ODD_NAMES) await add(name, 'alice');
    kept = await signed();
    for (let count = 0; count < 30; count++) await add(`Fern ${count}`, count % 3 === 0 ? 'Zoë/1' : 'bob');
    await http.delete(5, { token: await http.token('bob') });
    await signed();
    browser = await TestBrowser.start();
  });
  afterEach(() => browser.finish());
  afterAll(async () => {
    await browser.close();
    await CliProcess.stopAll();
    await http.finish();
  });

  const add = async (name: string, owner: string): Promise<number> => {
    const id = (plants += 1);
    const answer = await http.create({ id, name, tag: 'house' }, { token: await http.token(owner) });
    expect(answer.status).toBe(201);
    return id;
  };
  /** The first checkpoint that covers all of the log as it is now. */
  const signed = async (): Promise<string> => {
    const events = (await service.events()).length;
    const checkpoint = async (): Promise<string> => (await http.send({ path: '/log/checkpoint' })).text;
    return untilSeen(checkpoint, (note) => Number(note.split('\n')[1]) >= events);
  };

  const open = async (path: string, options?: Parameters<TestBrowser['page']>[1]): Promise<Page> => {
    const page = await browser.page(service.url, options);
    await page.goto(`${path}#token=${await service.token('auditor', 'plants:audit')}`);
    return page;
  };
  const rowsOf = (page: Page): Locator =>
    page.getByRole('list', { name: 'Events, the newest first' }).getByRole('listitem');
  /** Waits for a row with this text. The service itself appends an event now and then, so it need not be the first. */
  const row = (page: Page, text: string): Promise<void> =>
    rowsOf(page).filter({ hasText: text }).first().waitFor();
  /** Trusts the key of the log, and of the witness, in the form of the page. */
  const trust = async (page: Page): Promise<void> => {
    const form = page.locator('details', { hasText: 'Keys that you trust' });
    if ((await form.getAttribute('open')) === null) await form.locator('summary').click();
    await page.getByLabel('Keys of the log').fill(vkey);
    await page.getByLabel('Keys of witnesses').fill(witness.vkey);
    await page.getByRole('button', { name: 'Trust these keys' }).click();
    await page.getByText('These keys are trusted').waitFor();
  };

  it('reads the log, newest first, and sends a view of it to somebody', async () => {
    const page = await open('/console/log');
    await row(page, 'Plant deleted');
    await expectAccessible(page);
    await page.locator('details', { hasText: 'Filter' }).locator('summary').click();
    await page.getByLabel('Owner').fill('Zoë/1');
    await page.getByLabel('Type').fill('PlantCreated');
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.getByText('10 found in').waitFor();
    await rowsOf(page).first().getByText('Fern 27').waitFor();
    const address = page.url();
    expect(new URL(address).searchParams.get('owner')).toBe('Zoë/1');
    await expectAccessible(page);

    const other = await open(`${new URL(address).pathname}${new URL(address).search}`);
    await other.getByText('10 found in').waitFor();
    expect(await other.getByLabel('Owner').inputValue()).toBe('Zoë/1');
    await other.getByRole('button', { name: 'Show everything' }).click();
    await row(other, 'Plant deleted');
    expect(new URL(other.url()).search).toBe('');
  });

  it('finds the events of a plant, and begins at an older event', async () => {
    const page = await open('/console/log?owner=bob&plant=5');
    await page.getByText('2 found in').waitFor();
    expect(await rowsOf(page).count()).toBe(2);
    const older = await open('/console/log?from=1');
    await rowsOf(older).first().getByText('event 1').waitFor();
    expect(await rowsOf(older).count()).toBe(2);
    await older.getByRole('link', { name: 'The newest events' }).click();
    await row(older, 'Plant deleted');
  });

  it('sees events as they come, and first as not signed yet', async () => {
    const page = await open('/console/log');
    await page.getByText('Live', { exact: true }).waitFor();
    await row(page, 'Plant deleted');
    const name = `Live ${Date.now()}`;
    const id = await add(name, 'bob');
    await row(page, name);
    await page.getByRole('link').filter({ hasText: name }).waitFor(); // a checkpoint covers it now
    expect(await rowsOf(page).filter({ hasText: name }).count()).toBe(1);
    await http.delete(id, { token: await http.token('bob') });
    await row(page, `plant ${id}`);
  });

  it('shows what others have written as text, whatever it is', async () => {
    const page = await open('/console/log?owner=alice');
    await page.getByText('3 found in').waitFor();
    await row(page, ODD_NAMES[0] ?? '');
    const names = await page.evaluate<string[]>(
      `Array.from(document.querySelectorAll('main .name'), ({ textContent }) => textContent)`,
    );
    expect(names).toEqual(expect.arrayContaining(ODD_NAMES));
    expect(await page.locator('main img, main b').count()).toBe(0);
    await rowsOf(page).filter({ hasText: 'onerror' }).getByRole('link').click();
    await page
      .getByRole('region', { name: /^Event \d+$/ })
      .getByText('onerror')
      .first()
      .waitFor();
    await expectAccessible(page);
  });

  it('verifies an event here, and keeps it as a receipt', async () => {
    const page = await open('/console/log?event=7');
    const event = page.getByRole('region', { name: 'Event 7' });
    await event.getByText('Consistent, but not proven').waitFor();
    await trust(page);
    await event.getByText('Proven.').waitFor();
    await event.getByText('This is event 7 of the log, exactly so.').waitFor();
    await until(async () => (await event.getByText('witness.example/w1').count()) > 0);
    await expectAccessible(page);
    await picture(page, 'auditor-event-1280');
    const download = page.waitForEvent('download');
    await event.getByRole('button', { name: 'Save as a receipt' }).click();
    const file = await (await download).path();
    const text = readFileSync(file, 'utf8');
    expect(await verifyReceipt(text, trustOf({ key: vkey }))).toMatchObject({ verdict: 'proven', index: 7 });
  });

  it('is told what is no key, and that another key has not signed', async () => {
    const page = await open('/console/log?event=1');
    await page.getByText('Keys that you trust').click();
    await page.getByLabel('Keys of the log').fill('a key');
    await page.getByRole('button', { name: 'Trust these keys' }).click();
    await page.getByText('line 1: this is not a verifier key').waitFor();
    await page.getByLabel('Keys of the log').fill(witness.vkey);
    await page.getByRole('button', { name: 'Trust these keys' }).click();
    await page.getByText(/is not an Ed25519 key/).waitFor();
    const { name } = parseVerifierKey(vkey);
    await page.getByLabel('Keys of the log').fill(formatVerifierKey(newSigner(name)));
    await page.getByRole('button', { name: 'Trust these keys' }).click();
    await page.getByText(/by none of the known keys/).waitFor();
  });

  it('trusts by a policy file, whose quorum counts: here by a cosignature of ML-DSA-44', async () => {
    const page = await open('/console/checkpoints');
    const form = page.locator('details', { hasText: 'Keys that you trust' });
    if ((await form.getAttribute('open')) === null) await form.locator('summary').click();
    await page.getByLabel('Keys of the log').fill('');
    const saves = async (policy: string, says: string): Promise<void> => {
      await page.getByLabel('Keys of witnesses').fill(policy);
      await page.getByRole('button', { name: 'Trust these keys' }).click();
      await page.getByText(says).waitFor();
    };
    await saves(`witness w ${witness.vkey}\nquorum x`, 'line 2: no line before defines "x"');
    await saves(`log ${vkey}\nwitness w ${long}\nquorum w`, 'These keys are trusted');
    const last = page.getByRole('region', { name: 'The last checkpoint' });
    await last.getByText('Proven.').waitFor();
    await last.getByText(parseVerifierKey(vkey).name).first().waitFor();
  });

  it('sees who stands for a checkpoint, and that the log goes on from one that was kept', async () => {
    const page = await open('/console/checkpoints');
    await trust(page);
    const last = page.getByRole('region', { name: 'The last checkpoint' });
    await last.getByText('Proven.').waitFor();
    await last.getByText(parseVerifierKey(vkey).name).first().waitFor();
    await page.getByText('No alarm').waitFor();
    await page.getByLabel('The checkpoint that you have kept').fill(kept);
    await page.getByRole('button', { name: 'Compare' }).click();
    const compared = page.getByRole('region', { name: 'Compare two checkpoints' });
    const size = Number(kept.split('\n')[1]);
    await compared.getByText(`goes on from that of ${size}: none of these was changed`).waitFor();
    await expectAccessible(page);
    await picture(page, 'auditor-checkpoints-1280');
    await page
      .getByLabel('The checkpoint that you have kept')
      .fill(kept.replace(`\n${size}\n`, `\n${size + 1}\n`));
    await page.getByRole('button', { name: 'Compare' }).click();
    await compared.getByText('Refused.').waitFor();
    await compared.getByText(/The older checkpoint: line \d+: the signature is not by the key/).waitFor();
  });

  it('checks bundles, receipts and checkpoints without a token, and nothing is uploaded', async () => {
    const page = await browser.page(service.url);
    await page.goto('/console/check');
    await trust(page);
    const bundle = join(folder, 'bundle.ndjson.gz');
    expect((await runCli(['export', '--out', bundle], service.env)).status).toBe(0);
    const plain = join(folder, 'bundle.ndjson');
    expect((await runCli(['export', '--out', plain], service.env)).status).toBe(0);
    const altered = join(folder, 'altered.ndjson');
    writeFileSync(altered, readFileSync(plain, 'utf8').replace('Fern 11', 'Fern XI'));
    const checkpoint = join(folder, 'kept.checkpoint');
    writeFileSync(checkpoint, kept);
    let requests = 0;
    page.on('request', () => (requests += 1));
    const result = page.getByRole('region', { name: 'Result' });
    await page.getByLabel('Bundle, receipt, proof of a list, or checkpoint').setInputFiles(bundle);
    await result.getByText('Proven.').waitFor();
    await result.getByText('none is missing between them').waitFor();
    await expectAccessible(page);
    await picture(page, 'auditor-check-1280');
    await page.getByLabel('Bundle, receipt, proof of a list, or checkpoint').setInputFiles(altered);
    await result.getByText('Refused.').waitFor();
    await result.getByText(/event \d+: the event or its hash was altered/).waitFor();
    await page.getByText('A bundle goes on from an older checkpoint').click();
    await page.getByLabel('The checkpoint that you have kept').setInputFiles(checkpoint);
    await page.getByLabel('Bundle, receipt, proof of a list, or checkpoint').setInputFiles(plain);
    await result.getByText(/It goes on from the older checkpoint of \d+ events\./).waitFor();
    await page.getByLabel('Bundle, receipt, proof of a list, or checkpoint').setInputFiles(checkpoint);
    await result.getByText('A checkpoint').waitFor();
    expect(requests).toBe(0);
    await result.getByRole('button', { name: 'Compare with the log as it is now' }).click();
    await result.getByText(/goes on from that of \d+/).waitFor();
  });

  it('takes a file that is dropped', async () => {
    const page = await browser.page(service.url);
    await page.goto('/console/check');
    await page.getByLabel('Bundle, receipt, proof of a list, or checkpoint').waitFor();
    const drop = await page.evaluateHandle(
      `(() => { const data = new DataTransfer(); data.items.add(new File(['hello'], 'hello.txt')); return data; })()`,
    );
    await page.locator('.drop').dispatchEvent('drop', { dataTransfer: drop });
    await page.getByText('It is no bundle, no receipt, no proof of a list and no checkpoint.').waitFor();
  });

  it('is told of an alarm, and what it means', async () => {
    const tree = await openSqliteTreeStore(
      join(service.dataDir, 'tree.db'),
      parseVerifierKey(vkey).name.replace('plants/', ''),
    );
    const message = 'event at index 2 is not the one that was signed';
    await tree.raise({ kind: 'changed', index: 2, message, raisedAt: new Date().toISOString() });
    try {
      const page = await open('/console/log');
      const alarm = page.getByRole('alert', { name: 'Alarm' });
      await alarm.getByText('someone has changed it, behind the service').waitFor();
      await alarm.getByText(message).waitFor();
      await expectAccessible(page);
      await alarm.getByRole('link', { name: 'Event 2 in the log' }).click();
      await page.getByRole('region', { name: 'Event 2' }).waitFor();
    } finally {
      await tree.lift('auditor', 'it was raised by a test');
      await tree.close();
    }
  });

  it.each([
    ['log', 360, false],
    ['log', 360, true],
    ['log', 1280, true],
    ['log', 2560, false],
    ['check', 360, false],
    ['check', 1280, true],
  ] as const)('fits on the screen: %s, %i pixels, dark: %s', async (name, width, dark) => {
    const page = await open(name === 'log' ? '/console/log?event=7' : '/console/check', { width, dark });
    await page.getByText(name === 'log' ? 'Leaf hash' : 'Keys that you trust').waitFor();
    if (name === 'log') await row(page, 'Plant added');
    await expectAccessible(page);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await picture(page, `auditor-${name}-${width}${dark ? '-dark' : ''}`);
  });
});

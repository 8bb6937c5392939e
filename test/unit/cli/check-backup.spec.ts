import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { copyFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { signerKey } from '../../../src/audit/key.js';
import { checkBackup, newestOf } from '../../../src/cli/commands/check-backup.js';
import { backUp } from '../../../src/log/sqlite/backup.js';
import { openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { parseNote, type VerifierKey } from '../../../src/transparency/note.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { alterFile } from '../../support/past-triggers.js';
import { keepPrinted } from './command-for-tests.js';
import { signCheckpoint, cosign } from '../../../src/transparency/sign.js';

const { signal } = new AbortController();

describe('a check of a backup', () => {
  const witness = signerKey('w.example', generateKeyPairSync('ed25519').privateKey, 'cosignature');
  let log: AuditedLog;
  let printed: ReturnType<typeof keepPrinted>;
  let copies = 0;
  beforeEach(async () => {
    log = await AuditedLog.open();
    printed = keepPrinted();
    await log.fill(20);
    await log.sign();
    await log.record(); // the 21st event
    await log.fill(9);
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await log.remove();
  });

  const backedUp = async (): Promise<string> => {
    const file = join(log.folder, `copy-${(copies += 1)}`);
    await backUp(join(log.folder, 'events.db'), file, { onProgress: () => undefined, signal });
    return file;
  };
  const kept = (note: string): string => {
    writeFileSync(join(log.folder, 'kept'), note);
    return join(log.folder, 'kept');
  };
  /** The JSON that is printed about a backup, and true in `passed` if it passed. */
  const found = async (
    file: string,
    against?: string,
    {
      key = log.key,
      maxSeconds = Infinity,
    }: { readonly key?: VerifierKey; readonly maxSeconds?: number } = {},
  ) => {
    printed.stdout = '';
    const by = { key: [key], witness: against?.endsWith('cosigned') ? [witness] : [] };
    const newest = await newestOf({ ...by, ...(against === undefined ? {} : { against }) }, signal);
    const passed = await checkBackup(file, { keys: by.key, newest, maxSeconds, json: true }, signal);
    return { ...(JSON.parse(printed.stdout) as Record<string, unknown>), passed };
  };
  const forked = { verdict: 'forked', passed: false };

  it('proves it by what it records, and by the newest checkpoint that was kept', async () => {
    const copy = await backedUp();
    expect(await found(copy)).toEqual({
      ...{ verdict: 'proven', reason: null, file: copy, events: 30, proven: 20, size: null },
      ...{ lacksEvents: null, lacksSeconds: null, passed: true },
    });
    const whole = { verdict: 'proven', proven: 30, size: 30, lacksEvents: 0, lacksSeconds: 0, passed: true };
    expect(await found(copy, kept(await log.sign()), { maxSeconds: 0 })).toMatchObject(whole);
    expect(await found(copy, undefined, { key: newSigner() })).toMatchObject({
      ...{ verdict: 'unproven', passed: false, proven: 0 },
      reason: 'no checkpoint by these keys is of events that it holds',
    });
  });

  it('says how many seconds and events an old one lacks', async () => {
    const copy = await backedUp();
    await log.fill(5);
    const note = await log.sign();
    expect(await found(copy, kept(note))).toMatchObject({
      ...{ verdict: 'old', proven: 20, lacksEvents: 5, lacksSeconds: null, passed: true },
    });
    const cosigned = join(log.folder, 'cosigned');
    const seconds = Math.floor(Date.parse('2026-01-31T12:00:00Z') / 1_000) + 3_600;
    writeFileSync(cosigned, note + cosign(parseNote(note).text, witness, seconds));
    const old = { verdict: 'old', lacksEvents: 5, lacksSeconds: 3_600 };
    expect(await found(copy, cosigned, { maxSeconds: 3_600 })).toMatchObject({ ...old, passed: true });
    expect(await found(copy, cosigned, { maxSeconds: 3_599 })).toMatchObject({ ...old, passed: false });
  });

  it('tells one that is damaged, or cut off, or has lost events', async () => {
    const copy = await backedUp();
    const [letter, short, fewer] = ['letter', 'short', 'fewer'].map((name) => `${copy}-${name}`) as [
      string,
      string,
      string,
    ];
    for (const file of [letter, short, fewer]) copyFileSync(copy, file);
    alterFile(letter, "UPDATE events SET data = replace(data, 'ficus', 'Ficus') WHERE seq < 9");
    alterFile(fewer, 'DELETE FROM events WHERE seq > 25');
    const size = statSync(short).size;
    truncateSync(short, size - 4_096);
    for (const [file, verdict, reason] of [
      [letter, 'damaged', `${letter} was damaged or changed after it was made: use another backup`],
      [
        short,
        'cut',
        `${short} is cut off: ${size - 4_096} of its ${size} bytes are there: use another backup`,
      ],
      [fewer, 'cut', `${fewer} lacks events: it holds 25, and their numbers have gaps`],
    ])
      expect(await found(file ?? '')).toMatchObject({ verdict, reason, passed: false });
  });

  it('tells one that holds other events than were signed, however it was made', async () => {
    const note = await log.sign();
    const checkpoint = openCheckpoint(note, log.key.name, [log.key]);
    const otherState = signCheckpoint({ ...checkpoint, stateRoot: new Uint8Array(32) }, log.key);
    const rightState = (await log.tree.latestCheckpoint())?.stateNote ?? '';
    expect(await found(await backedUp(), kept(rightState))).toMatchObject({ verdict: 'proven' });
    expect(await found(await backedUp(), kept(otherState))).toMatchObject({
      ...forked,
      reason:
        'its first 30 events do not come to the state root that was signed of them, and the first 20 do',
    });
    const erasure = '00000000-0000-4000-8000-000000000000';
    log.alter("UPDATE events SET data = replace(data, 'ficus', 'Ficus') WHERE seq > 21");
    expect(await found(await backedUp(), kept(note))).toMatchObject({
      ...forked,
      reason: 'its first 30 events do not come to the root that was signed of them, and the first 20 do',
    });
    log.alter("UPDATE events SET data = replace(data, 'ficus', 'Ficus') WHERE seq < 9");
    expect(await found(await backedUp())).toMatchObject({
      ...forked,
      reason: 'its first 20 events do not come to the root that was signed of them',
    });
    log.alter("UPDATE events SET data = replace(data, 'Ficus', 'ficus')");
    const leafHash = Buffer.from(await log.tree.tile(0, 0)).toString('base64', 32, 64);
    log.alter(
      `UPDATE events SET stream = 'erased-${erasure}', revision = 0, type = 'Erased', data = '{"leafHash":"${leafHash}"}', metadata = '{"schemaVersion":1}' WHERE seq = 2`,
    );
    expect(await found(await backedUp())).toMatchObject({
      ...forked,
      reason: `events are erased, and no erasure ${erasure} is recorded: they were removed by another program`,
    });
  });
});

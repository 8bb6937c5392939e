import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { published } from '../../../src/log/sqlite/backup.js';
import { type BundleQuestion, ExportRefused } from '../../../src/audit/bundle-write.js';
import { check } from '../../../src/cli/check.js';
import { exportBundle } from '../../../src/cli/commands/export.js';
import { plantStream } from '../../../src/domain/stream.js';
import { AuditedLog } from '../../support/audited-log.js';
import { newEvent } from '../../support/log-events.js';
import { keepPrinted } from './command-for-tests.js';

/** One block and some more. */
const EVENTS = 270;

/** The steps of docs/audit.md for an auditor under an alarm, with a bundle that was kept from before. */
describe('an altered log beside a bundle of what it was', () => {
  let log: AuditedLog;
  let printed: ReturnType<typeof keepPrinted>;

  beforeEach(async () => {
    log = await AuditedLog.open();
    await log.fill(EVENTS);
    await log.sign();
    printed = keepPrinted();
    await exported('kept');
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await log.remove();
  });

  const file = (name: string): string => join(log.folder, name);
  const exported = async (name: string, question: Partial<BundleQuestion> = {}): Promise<string> => {
    printed.stdout = '';
    await exportBundle(
      { log: log.log, tree: log.tree, signal: new AbortController().signal, json: false, published },
      { file: file(name), from: undefined, owner: undefined, ...question },
    );
    return printed.stdout;
  };
  const compared = async (name: string, json = false): Promise<string> => {
    printed.stdout = '';
    const question = {
      file: file(name),
      trust: { keys: [log.key], witnesses: [] },
      against: undefined,
      previous: file('kept'),
    };
    await check({ json }, question);
    return printed.stdout;
  };

  it.each([
    [
      'one was changed',
      `UPDATE events SET metadata = replace(metadata, '2026-01-31', '2026-01-30') WHERE seq = 42`,
      41,
      /^refused: line 43, event 41: the event is not the one of the older bundle \(line 43 there\)\n {2}in the older bundle: \{"data":.*"decidedAt":"2026-01-31.*\n {2}in this one: +\{"data":.*"decidedAt":"2026-01-30.*\n$/,
    ],
    [
      'one of the last ones was changed',
      `UPDATE events SET metadata = replace(metadata, '2026-01-31', '2026-01-30') WHERE seq = ${EVENTS}`,
      EVENTS - 1,
      /^refused: line 272, event 269: the event is not the one.*\n {2}in the older.*2026-01-31.*\n {2}in this one.*2026-01-30.*\n$/,
    ],
    [
      'one was taken out',
      'DELETE FROM events WHERE seq = 3',
      2,
      /^refused: line 4, event 2: the event is not the one.*\n {2}in the older bundle: .*"id":3,.*\n {2}in this one: .*"id":4,.*\n$/,
    ],
    [
      'the end is gone',
      'DELETE FROM events WHERE seq > 100',
      100,
      /^refused: line 102, event 100: the event is missing: the bundle ends before it\n {2}in the older bundle: \{"data":.*\n$/,
    ],
  ])(
    'is exported as it is, and the first event that differs is shown: %s',
    async (_what, sql, index, text) => {
      log.alter(sql);
      await expect(exported('refused')).rejects.toThrow(ExportRefused);
      expect(await exported('altered', { altered: true })).toMatch(
        /exported \d+ events .*: as the log holds them now, NOT verified against the checkpoint of 270 events of plants.example\/log\n$/,
      );
      expect(await compared('altered')).toMatch(text);
      expect(JSON.parse(await compared('altered', true))).toMatchObject({ verdict: 'refused', index });
      // Nothing of it is taken for proven without the older bundle either.
      const question = {
        file: file('altered'),
        trust: { keys: [log.key], witnesses: [] },
        against: undefined,
        previous: undefined,
      };
      expect(await check({ json: false }, question)).toBe(false);
    },
  );

  it('is not called verified against a tree that was altered itself', async () => {
    await log.tree.raise({
      kind: 'tree',
      message: 'the stored tree was altered: …',
      raisedAt: '2026-01-31T12:00:00.000Z',
    });
    await expect(exported('refused')).rejects.toThrow('nothing can be verified against its tree');
    expect(await exported('altered', { altered: true })).toContain('NOT verified');
  });

  it('is exported up to the last recorded checkpoint where tree.db is gone and nothing was signed since', async () => {
    await log.record();
    log.alter(`UPDATE events SET metadata = replace(metadata, '2026-01-31', '2026-01-30') WHERE seq = 42`);
    log.forgetTree();
    await log.grow();
    await expect(exported('refused')).rejects.toThrow('no checkpoint has been signed yet');
    expect(await exported('altered', { altered: true })).toMatch(
      /exported 270 events .*: as the log holds them now, NOT verified against the checkpoint of 270 events/,
    );
    expect(await compared('altered')).toMatch(
      /^refused: line 43, event 41: the event is not the one of the older bundle/,
    );
  });

  it.each([
    [
      'the log was restored',
      'DELETE FROM events WHERE seq > 100',
      'SELECT 1',
      100,
      'the two were mixed up, or the log was cut off',
    ],
    [
      'and it was altered',
      'DELETE FROM events WHERE seq > 100',
      `UPDATE events SET metadata = replace(metadata, '2026-01-31', '2026-01-30') WHERE seq = 42`,
      41,
      'the event is not the one of the older bundle',
    ],
  ])('is compared as far as it goes where %s', async (_what, cut, change, index, reason) => {
    log.alter(cut);
    log.alter(change);
    log.forgetTree();
    await log.sign();
    await exported('shorter');
    const text = await compared('shorter');
    expect(text).toMatch(new RegExp(`^refused: line \\d+, event ${index}: .*${reason}`));
    expect(text).toContain('in the older bundle: {"data":');
  });

  it('of one owner is no continuation of a bundle of more events, though none of the owner is missing', async () => {
    const id = 1_000;
    const data = { id, name: 'Aloe', tag: 'aloe' };
    await log.log.append(plantStream('carol', id), 'none', [{ ...newEvent(data), type: 'PlantCreated' }]);
    await exported('owner', { owner: 'alice' });
    await log.sign();
    rmSync(file('kept'));
    await exported('kept');
    expect(await compared('owner')).toMatch(
      /^refused: .*of size 271, and this one of 270: the two were mixed up/,
    );
  });

  it('is named also where it was signed again at the same size', async () => {
    log.alter(`UPDATE events SET metadata = replace(metadata, '2026-01-31', '2026-01-30') WHERE seq = 42`);
    log.forgetTree();
    await log.sign();
    await exported('anew');
    expect(await compared('anew')).toMatch(
      /^refused: line 43, event 41: the event is not the one of the older bundle.*\n {2}in the older.*2026-01-31.*\n {2}in this one.*2026-01-30.*\n$/,
    );
  });

  it('says what changed since, also where as many plants went as came', async () => {
    const gone = newEvent({ id: 1 });
    await log.log.append(plantStream('bob', 1), 0n, [gone]);
    const data = { id: 1_000, name: 'Aloe', tag: 'aloe' };
    await log.log.append(plantStream('bob', 1_000), 'none', [{ ...newEvent(data), type: 'PlantCreated' }]);
    await log.sign();
    await exported('newer');
    expect(await compared('newer')).toMatch(
      /; since the older bundle changed:\n {2}bob {2}(\d+) -> \1 plants {2}\(1 created, 1 deleted\)\n$/,
    );
    expect(JSON.parse(await compared('newer', true))).toMatchObject({
      changes: { bob: { created: 1, deleted: 1 } },
    });
    expect(await compared('kept')).toMatch(/since the older bundle changed:\n {2}nothing\n$/);
  });
});

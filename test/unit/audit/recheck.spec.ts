import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { recheck, RecheckProgress } from '../../../src/audit/recheck.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type EventLog, LogUnavailable } from '../../../src/log/event-log.js';
import { type Alarm } from '../../../src/audit/tree-store.js';
import { AuditedLog } from '../../support/audited-log.js';
import { Faults } from '../../support/domain-faults.js';
import { appendRaw, noon } from '../../support/domain-stores.js';
import { signCheckpoint } from '../../../src/transparency/sign.js';

/** Some tiles are full, and one is not. */
const EVENTS = 1_100;

describe('a log that is read again', () => {
  let log: AuditedLog;

  beforeEach(async () => {
    log = await AuditedLog.open();
    await log.fill(EVENTS);
    await log.sign();
  });
  afterEach(() => log.remove());

  const again = (
    progress?: RecheckProgress,
    signal = new AbortController().signal,
    port: EventLog = log.log,
  ): Promise<Alarm | undefined> =>
    recheck(
      port,
      log.tree,
      { now: noon, yieldToLoop: () => Promise.resolve(), patienceMs: 0, keys: [log.key] },
      signal,
      progress,
    );

  /** A hash of the tree is another one. */
  const alterTile = (level: number, index: number, hash: number): void => {
    const from = 32 * hash;
    log.tamper(
      `UPDATE tiles SET hashes = CAST(substr(hashes, 1, ${from}) || ? || substr(hashes, ${from + 33}) AS BLOB)
       WHERE level = ? AND idx = ?`,
      new Uint8Array(32).fill(7),
      level,
      index,
    );
  };

  it('is as it was', async () => {
    expect(await again()).toBeUndefined();
  });

  it.each<[string, () => void, Partial<Alarm>]>([
    [
      'a leaf that was signed',
      () => {
        alterTile(0, 1, 44);
      },
      {
        kind: 'tree',
        index: 300,
        message: 'the stored tree was altered: its leaf 300 is not the one that was signed',
      },
    ],
    [
      'a hash above the leaves',
      () => {
        alterTile(1, 0, 1);
      },
      {
        kind: 'tree',
        message: 'the stored tree was altered: a hash above the leaves up to index 511 is another',
      },
    ],
    [
      'the root of the checkpoint',
      () => {
        log.tamper('UPDATE checkpoints SET root = ?', new Uint8Array(32).fill(7));
      },
      {
        kind: 'tree',
        message: `the stored tree was altered: its first ${EVENTS} leaves have another root than the one that was signed`,
      },
    ],
    [
      'what the next leaf is appended to',
      () => {
        log.tamper('UPDATE tree SET hashes = zeroblob(length(hashes))');
      },
      {
        kind: 'tree',
        message: `the stored tree was altered: what it consists of at ${EVENTS} leaves is not made of them`,
      },
    ],
    [
      'a position that events are looked up by',
      () => {
        log.tamper("UPDATE marks SET before = '0000000000000003' WHERE idx = (SELECT max(idx) FROM marks)");
      },
      { kind: 'moved', message: expect.stringContaining('not at 0000000000000003') as unknown as string },
    ],
    [
      'a position that events are looked up by, taken away',
      () => {
        log.tamper('DELETE FROM marks');
      },
      { kind: 'moved', message: expect.stringContaining('not at a known one') as unknown as string },
    ],
    [
      'the position of the last leaf',
      () => {
        log.tamper("UPDATE tree SET position = '0000000000000003'");
      },
      {
        kind: 'moved',
        index: EVENTS - 1,
        message: expect.stringContaining('not at 0000000000000003') as unknown as string,
      },
    ],
  ])('raises the alarm where the store of the tree has another value for %s', async (_what, alter, alarm) => {
    alter();
    expect(await again()).toMatchObject({ ...alarm, raisedAt: noon().toISOString() });
  });

  it('goes on where it was, and compares what it has read with a checkpoint of that part', async () => {
    const progress = new RecheckProgress();
    expect(await again(progress)).toBeUndefined();
    expect(progress.read.tree.size).toBe(1_024);
    log.tamper('UPDATE checkpoints SET size = 512');
    expect(await again(progress)).toMatchObject({
      kind: 'tree',
      message: expect.stringContaining('its first 512 leaves have another root') as unknown,
    });
    log.tamper('DELETE FROM tiles WHERE level = 1');
    expect(await again(progress)).toMatchObject({ kind: 'tree' });
  });

  /** Reads all again, and fails after that. */
  const brokenOff = async (): Promise<RecheckProgress> => {
    const progress = new RecheckProgress();
    const gone = (): never => {
      throw new LogUnavailable('gone');
    };
    await expect(again(progress, undefined, new Faults(log.log).next('check', gone).port)).rejects.toThrow();
    return progress;
  };

  it('raises no alarm where it was broken off behind the last checkpoint, and goes on before that', async () => {
    await log.fill(10);
    await log.grow();
    const progress = await brokenOff();
    expect(progress.read.tree.size).toBe(1_024);
    expect(await again(progress)).toBeUndefined();
  });

  it.each([true, false])(
    'compares the state with a checkpoint of fewer events than it had read; it is the right one: %s',
    async (isRight) => {
      await log.fill(5);
      await log.sign();
      const signed = await log.tree.latestCheckpoint();
      if (!signed) throw new Error('nothing was signed');
      log.tamper('DELETE FROM checkpoints WHERE size = ?', signed.size);
      await log.fill(5);
      await log.grow();
      const progress = await brokenOff();
      const { size, root } = signed;
      const wrong = signCheckpoint(
        { origin: log.key.name, size, root, stateRoot: new Uint8Array(32) },
        log.key,
      );
      await log.tree.saveCheckpoint(isRight ? signed : { ...signed, stateNote: wrong });
      const alarm = await again(progress);
      if (isRight) expect(alarm).toBeUndefined();
      else
        expect(alarm?.message).toContain(
          `the state that was signed with ${size} events is not the one that they come to`,
        );
    },
  );

  it('finds each stored checkpoint whose signature, root or text is not what was signed, also an older one', async () => {
    await log.fill(10);
    await log.sign();
    expect(await again()).toBeUndefined();
    const { note = '', stateNote = '' } = (await log.tree.checkpoint(EVENTS)) ?? {};
    const otherEnd = (text: string): string =>
      text.replace(/(.)=\n$/, (_end, last: string) => `${last === 'A' ? 'E' : 'A'}=\n`);
    const alterations: readonly ['note' | 'state_note', string, RegExp][] = [
      ['note', otherEnd(note), /signature is not by/],
      ['note', note.replace(`\n${EVENTS}\n`, `\n${EVENTS - 1}\n`), /is not the one that was signed/],
      ['note', '', /is not the one that was signed/],
      ['state_note', otherEnd(stateNote), /signature is not by/],
      ['state_note', stateNote.replace(/v1 .*\n/, `v1 ${'A'.repeat(43)}=\n`), /signature is not by/],
      ['state_note', '', /is not the one that was signed/],
    ];
    for (const [column, altered, reason] of alterations) {
      log.tamper(`UPDATE checkpoints SET ${column} = ? WHERE size = ${EVENTS}`, altered);
      expect(await again()).toMatchObject({
        kind: 'tree',
        message: expect.stringMatching(reason) as unknown,
      });
      log.tamper(`UPDATE checkpoints SET note = ?, state_note = ? WHERE size = ${EVENTS}`, note, stateNote);
    }
    log.tamper(`UPDATE checkpoints SET note = ?, root = zeroblob(32) WHERE size = ${EVENTS}`, note);
    expect(await again()).toMatchObject({
      kind: 'tree',
      message: expect.stringContaining(`its first ${EVENTS} leaves have another root`) as unknown,
    });
  });

  it('has an event without a leaf where one with a leaf was', async () => {
    const { position } = await appendRaw(log.log, plantStream('anne', 1), 'PlantCreated', { name: '\ud800' });
    log.tamper('UPDATE tree SET size = size + 1, position = ?', position);
    log.tamper(
      `UPDATE tiles SET hashes = CAST(hashes || zeroblob(32) AS BLOB) WHERE level = 0 AND idx = ${Math.floor(EVENTS / 256)}`,
    );
    expect(await again()).toMatchObject({ kind: 'changed', index: EVENTS, position });
  });

  it('is not read to its end where somebody asks to stop', async () => {
    expect(await again(new RecheckProgress(), AbortSignal.abort())).toBeUndefined();
  });
});

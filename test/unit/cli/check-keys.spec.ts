import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { RecordedCheckpoints } from '../../../src/audit/recorded-checkpoints.js';
import { formatVerifierKey, type VerifierKey } from '../../../src/transparency/note.js';
import { check } from '../../../src/cli/check.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { sampleMetadata } from '../../support/log-events.js';
import { checkByPython, PYTHON } from '../../support/python-check.js';
import { keepPrinted } from './command-for-tests.js';
import { type SignerKey } from '../../../src/transparency/sign.js';

const nameOf = ({ name, id }: VerifierKey): string => `${name}+${id}`;

describe('a check of a log whose key was changed', () => {
  const [old, next] = [newSigner(), newSigner()];
  let log: AuditedLog;
  let printed: ReturnType<typeof keepPrinted>;
  let kept: string;
  beforeEach(async () => {
    log = await AuditedLog.open(old);
    printed = keepPrinted();
    await log.fill(4);
    kept = await log.sign();
    await record(old);
    await log.sign();
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await log.remove();
  });

  const record = async (key: SignerKey, previousKey?: SignerKey): Promise<void> => {
    const recorded = new RecordedCheckpoints(log.log, log.tree, key, {
      now: () => new Date(),
      yieldToLoop: () => nextTurn(),
      recording: { afterMs: 0, everyMs: 0, previousKey },
    });
    await recorded.compare(new AbortController().signal);
    await recorded.recordIfDue();
  };
  const bundle = async (previousKey?: SignerKey): Promise<string> => {
    await record(next, previousKey);
    await log.fill(2);
    await log.sign(next);
    const file = join(log.folder, 'bundle');
    writeFileSync(file, await log.bundle());
    return file;
  };
  const checked = async (file: string, keys: readonly VerifierKey[], json = false): Promise<boolean> => {
    printed.stdout = '';
    return check(
      { json },
      { file, trust: { keys, witnesses: [] }, against: Buffer.from(kept), previous: undefined },
    );
  };

  it('takes both keys, and says whether the old one has signed the change', async () => {
    const file = await bundle(old);
    expect(await checked(file, [old, next])).toBe(true);
    expect(printed.stdout).toMatch(`signed by ${nameOf(next)}\n`);
    expect(printed.stdout).toMatch('It goes on from the older checkpoint of 4 events, without a difference.');
    expect(printed.stdout).toMatch(
      `Event 5 records that the key was changed from ${nameOf(old)} to ${nameOf(next)}: the old key has signed that.`,
    );
    await checked(file, [next, old], true);
    expect(JSON.parse(printed.stdout)).toMatchObject({
      signedBy: nameOf(next),
      keyChanges: [{ index: 5, from: nameOf(old), to: nameOf(next), confirmed: true }],
    });
  });

  it('says where the old key has not signed it', async () => {
    const file = await bundle();
    expect(await checked(file, [old, next])).toBe(true);
    expect(printed.stdout).toMatch(`to ${nameOf(next)}: the old key has NOT signed that. Ask why`);
  });

  it('is refused with one of the keys where the other one is needed', async () => {
    const file = await bundle(old);
    expect(await checked(file, [old])).toBe(false);
    expect(printed.stdout).toMatch(
      /refused: line 1: its checkpoint: it is signed by .*, and by none of the known keys/,
    );
    expect(await checked(file, [next])).toBe(false);
    expect(printed.stdout).toMatch(
      /refused: the older checkpoint: it is signed by .*, and by none of the known keys/,
    );
  });

  it('passes over a record that cannot be used', async () => {
    const data = { key: formatVerifierKey(old), note: 'no note', treeSince: 'then' };
    const event = { id: randomUUID(), type: 'CheckpointRecorded', data, metadata: sampleMetadata() };
    await log.log.append('operation-audit', 0n, [event]);
    await log.sign();
    const file = await bundle(old);
    expect(await checked(file, [old, next])).toBe(true);
    expect(printed.stdout).toMatch('Event 6 records that the key was changed');
  });

  (PYTHON ? it : it.skip)('is the same by docs/check.py', async () => {
    const text = readFileSync(await bundle(old));
    const [a, b] = [formatVerifierKey(old), formatVerifierKey(next)];
    const runs = [[a, b], [b, a], [a], [b]].map((key) => ({ bundle: text, key, against: kept }));
    expect(checkByPython(runs).map(({ status }) => status)).toEqual([0, 0, 1, 1]);
  });
});

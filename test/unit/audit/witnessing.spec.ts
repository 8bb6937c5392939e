import { createHash, generateKeyPairSync } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openWitnessStore } from '../../../src/witness/sqlite-witness-store.js';
import { cosignaturesOf } from '../../../src/transparency/cosignature.js';
import { CosignedNotes } from '../../../src/audit/cosigned-notes.js';
import { ShownCheckpoints } from '../../../src/audit/shown-checkpoints.js';
import { keyName, parseNote, verifyNote } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { type AskWitness, type WitnessReply, type WitnessTarget } from '../../../src/audit/add-checkpoint.js';
import { Witnessing, type WitnessState } from '../../../src/audit/witnessing.js';
import { decorate } from '../../../src/log/decorate.js';
import { type EventLog, LogUnavailable } from '../../../src/log/event-log.js';
import { type WitnessStore } from '../../../src/witness/witness-store.js';
import { Witness } from '../../../src/witness/witness.js';
import { AuditedLog } from '../../support/audited-log.js';
import { LogOfLeaves } from '../../support/log-of-leaves.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';
import { cosign, type SignerKey } from '../../../src/transparency/sign.js';

const newWitnessKey = (name: string): SignerKey =>
  signerKey(name, generateKeyPairSync('ed25519').privateKey, 'cosignature');

/** Fast, so that a test need not wait. */
const PAUSES = { firstMs: 1, longestMs: 5 };

const never: AskWitness = (_url, _body, signal) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(new Error('stopped'));
    });
  });

describe('an auditor with witnesses', () => {
  let audited: AuditedLog;
  let folder: string;
  let stop: AbortController;
  let running: Promise<void>[];
  let stores: WitnessStore[];
  beforeEach(async () => {
    audited = await AuditedLog.open();
    folder = temporaryFolder();
    stop = new AbortController();
    [running, stores] = [[], []];
  });
  afterEach(async () => {
    stop.abort();
    await Promise.all(running);
    for (const store of stores) store.close();
    await audited.remove();
    rmSync(folder, { recursive: true });
  });

  /** A witness with a memory of its own, as the auditor asks it. */
  const witness = (key: SignerKey, memory = `${key.name}.db`): AskWitness => {
    const store = openWitnessStore(join(folder, memory));
    stores.push(store);
    const asked = new Witness([key], [audited.key], store, () => new Date());
    const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');
    return (url, body) =>
      Promise.resolve(
        body === undefined
          ? asked.checkpoint(/([0-9a-f]{64})\/checkpoint$/.exec(url)?.[1] ?? '', hashOf)
          : asked.addCheckpoint(Buffer.from(body)),
      );
  };

  const notesFor = (
    keys: readonly SignerKey[],
    required: number,
    isFailing?: (witness: string) => boolean,
  ): CosignedNotes => new CosignedNotes(audited.tree, keys, required, [audited.key], isFailing);

  const start = (
    witnesses: readonly (readonly [SignerKey, AskWitness])[],
    required = witnesses.length,
    { log = audited.log, patienceMs = 20 }: { log?: Pick<EventLog, 'head'>; patienceMs?: number } = {},
  ) => {
    const keys = witnesses.map(([key]) => key);
    const notes = notesFor(keys, required, (name) =>
      witnessing.status.witnesses.some(({ witness: one, state }) => one === name && state === 'unreachable'),
    );
    const targets: WitnessTarget[] = keys.map((key) => ({ key, url: `https://${key.name}` }));
    const states: [string, WitnessState][] = [];
    const ask: AskWitness = (url, body, signal) => {
      const found = witnesses.find(([{ name }]) => url.startsWith(`https://${name}/`));
      return found ? found[1](url, body, signal) : Promise.reject(new Error('nobody is there'));
    };
    const shown = new ShownCheckpoints(log, audited.tree, audited.key, targets, {
      ...{ ask, patienceMs, timeoutMs: 60_000 },
    });
    const witnessing = new Witnessing(audited.tree, targets, notes, shown, {
      now: () => new Date(),
      ask,
      pauses: PAUSES,
      onState: ({ witness: name, state }) => states.push([name, state]),
    });
    running.push(witnessing.run(stop.signal));
    return { notes, witnessing, states };
  };

  const sign = async (events: number, witnessing?: Witnessing): Promise<string> => {
    await audited.fill(events);
    const note = await audited.sign();
    witnessing?.signed();
    return note;
  };

  const [one, two] = [newWitnessKey('one.example'), newWitnessKey('two.example')];

  it('gets the cosignature of each for each checkpoint, and keeps them with it', async () => {
    const { notes, witnessing } = start([
      [one, witness(one)],
      [two, witness(two)],
    ]);
    for (const events of [10, 300, 1]) {
      const note = await sign(events, witnessing);
      await until(async () => (await notes.cosigned(note)).by.length === 2);
      const published = (await notes.cosigned(note)).note;
      expect(cosignaturesOf(published, [one, two])).toHaveLength(2);
      expect(verifyNote(published, [audited.key]).text).toBe(parseNote(note).text);
      expect((await notes.witnessed())?.note).toBe(published);
    }
    const { size } = witnessing.status;
    expect(witnessing.status).toMatchObject({
      required: 2,
      witnesses: [
        { witness: keyName(one), state: 'cosigns', size },
        { witness: keyName(two), state: 'cosigns', size },
      ],
    });
  });

  it('goes on with what another process has kept', async () => {
    const first = start([[one, witness(one)]]);
    const note = await sign(5, first.witnessing);
    await until(async () => (await first.notes.cosigned(note)).by.length === 1);
    const asked: string[] = [];
    const again = start([
      [
        one,
        (_url, body = '') => {
          asked.push(body.split('\n')[0] ?? '');
          return Promise.reject(new Error('asked'));
        },
      ],
    ]);
    expect((await again.notes.witnessed())?.size).toBe(5);
    await until(() => again.witnessing.status.witnesses[0]?.size === 5);
    expect(again.witnessing.status.size).toBe(5);
    await sign(5, again.witnessing);
    await until(() => asked.length > 0);
    expect(asked[0]).toBe('old 5');
  });

  it('finds out by itself which size a witness has', async () => {
    const ask = witness(one);
    const first = start([[one, ask]]);
    const note = await sign(10, first.witnessing);
    await until(async () => (await first.notes.cosigned(note)).by.length === 1);
    audited.tamper('DELETE FROM cosignatures');
    const later = await sign(10);
    const again = start([[one, ask]]);
    await until(async () => (await again.notes.cosigned(later)).by.length === 1);
  });

  it('keeps what enough have cosigned, whatever one of them does: with two of three', async () => {
    const gone = newWitnessKey('gone.example');
    const { notes, witnessing } = start(
      [
        [one, witness(one)],
        [two, witness(two)],
        [gone, () => Promise.reject(new Error('it cannot be reached (ECONNREFUSED)'))],
      ],
      2,
    );
    const note = await sign(10, witnessing);
    await until(async () => (await notes.witnessed())?.by.length === 2);
    await until(() => witnessing.status.witnesses[2]?.state === 'unreachable');
    expect(witnessing.status.witnesses[2]).toMatchObject({ reason: 'it cannot be reached (ECONNREFUSED)' });
    expect(notes.expected).toBe(true);
    expect((await notes.witnessed())?.note.startsWith(note)).toBe(true);
    expect(await audited.tree.alarm()).toBeUndefined();
  });

  it('does not expect enough cosignatures while too few answer, and does again when they do', async () => {
    let isThere = false;
    const ask = witness(one);
    const { notes, witnessing } = start([
      [one, (...request) => (isThere ? ask(...request) : Promise.reject(new Error('gone')))],
    ]);
    const note = await sign(10, witnessing);
    await until(() => !notes.expected);
    isThere = true;
    await until(() => notes.expected);
    expect((await notes.cosigned(note)).by).toHaveLength(1);
  });

  const cosigned =
    (key: SignerKey, of: SignerKey = key): AskWitness =>
    (_url, body = '') => {
      const note = body.slice(body.indexOf('\n\n') + 2);
      const line = cosign(parseNote(note).text, of, 1_800_000_000);
      const named = { ...key, privateKey: of.privateKey };
      return Promise.resolve({
        status: 200,
        type: 'text/plain',
        body: key === of ? line : cosign(parseNote(note).text, named, 1_800_000_000),
      });
    };

  const replies =
    (reply: Partial<WitnessReply>): AskWitness =>
    () =>
      Promise.resolve({ status: 200, type: 'text/plain', body: '', ...reply });

  it.each<[string, AskWitness, WitnessState, RegExp]>([
    ['answers nothing', replies({}), 'unreachable', /no signature|here should be|without its cosignature/],
    ['answers rubbish', replies({ body: '<html>\n' }), 'unreachable', /./],
    ['cosigns as somebody else', cosigned(two), 'unreachable', /without its cosignature/],
    ['cosigns with another key', cosigned(one, two), 'unreachable', /is not by that key/],
    ['answers 500', replies({ status: 500 }), 'unreachable', /it answers 500/],
    ['answers 429', replies({ status: 429 }), 'unreachable', /it answers 429/],
    [
      'does not know the log',
      replies({ status: 404, body: 'no such log\n' }),
      'refuses',
      /404: "no such log"/,
    ],
    ['does not know the key', replies({ status: 403 }), 'refuses', /it answers 403/],
    ['answers 409 without a size', replies({ status: 409, body: '5' }), 'unreachable', /it answers 409/],
    [
      'claims a size that it cannot show',
      replies({ status: 409, type: 'text/x.tlog.size', body: '99999\n' }),
      'disagrees',
      /has cosigned a tree of size 99999, and this one has 10/,
    ],
    [
      'refuses every proof and shows nothing',
      replies({ status: 422, body: 'no\n' }),
      'disagrees',
      /refuses the proof/,
    ],
  ])('where one %s: says so, and raises no alarm', async (_what, ask, state, reason) => {
    const { notes, witnessing } = start([[one, ask]]);
    const note = await sign(10, witnessing);
    await until(
      () => witnessing.status.witnesses[0]?.state === state,
      () => witnessing.status,
    );
    expect(witnessing.status.witnesses[0]?.reason).toMatch(reason);
    expect(witnessing.status.witnesses[0]?.reason).not.toContain('\n');
    expect(await notes.cosigned(note)).toMatchObject({ note, by: [] });
    expect(await audited.tree.alarm()).toBeUndefined();
  });

  it('waits for nobody: one that never answers keeps no other from cosigning', async () => {
    const { notes, witnessing } = start(
      [
        [two, never],
        [one, witness(one)],
      ],
      1,
    );
    const note = await sign(10, witnessing);
    await until(async () => (await notes.witnessed())?.note.startsWith(note) ?? false);
  });

  it('raises the alarm where a witness shows a second history by the same key', async () => {
    const ask = witness(one);
    const other = new LogOfLeaves(audited.key, 100);
    await ask('https://one.example/add-checkpoint', other.request(0, 8), stop.signal);
    const { witnessing } = start([[one, ask]]);
    await sign(10, witnessing);
    await until(async () => (await audited.tree.alarm()) !== undefined);
    expect(await audited.tree.alarm()).toMatchObject({
      kind: 'fork',
      message: expect.stringMatching(
        /^the witness one\.example\+\w+ shows a checkpoint .* has signed of 8 events, and the first 8 events have another root now: /,
      ) as unknown,
    });
    await until(() => witnessing.status.witnesses[0]?.state === 'disagrees');
  });

  it('raises the alarm where a witness shows more events than there are: the store was restored', async () => {
    const ask = witness(one);
    const other = new LogOfLeaves(audited.key, 100);
    await ask('https://one.example/add-checkpoint', other.request(0, 50), stop.signal);
    const { witnessing } = start([[one, ask]]);
    await sign(10, witnessing);
    await until(async () => (await audited.tree.alarm()) !== undefined);
    expect((await audited.tree.alarm())?.message).toContain('of 50 events, and this tree has 10');
  });

  it.each<[string, Partial<Pick<EventLog, 'head'>>]>([
    ['the tree has yet to read the log: another auditor with this key is ahead', {}],
    ['the log cannot be read', { head: () => Promise.reject(new LogUnavailable('it is away')) }],
  ])('raises no alarm where a witness shows more events than there are while %s', async (_, faults) => {
    const asked: string[] = [];
    const asks = witness(one);
    const ask: AskWitness = (url, body, signal) => {
      if (body === undefined) asked.push(url);
      return asks(url, body, signal);
    };
    const other = new LogOfLeaves(audited.key, 100);
    await asks('https://one.example/add-checkpoint', other.request(0, 50), stop.signal);
    await sign(10);
    await audited.fill(20);
    start([[one, ask]], 1, { log: decorate(audited.log, faults), patienceMs: 0 });
    await until(() => asked.length === 3); // it was judged twice by then
    expect(await audited.tree.alarm()).toBeUndefined();
  });

  it('takes no cosignature from its store that is not one, and asks for it again', async () => {
    const ask = witness(one);
    const { notes, witnessing } = start([[one, ask]]);
    const notesOf: string[] = [];
    for (const events of [10, 1]) {
      const note = await sign(events, witnessing);
      await until(async () => (await notes.cosigned(note)).by.length === 1);
      notesOf.push(note);
    }
    const [earlier = '', note = ''] = notesOf;
    stop.abort();
    await Promise.all(running);
    for (const line of ['', 'rubbish', '— rubbish\n', cosign(parseNote(earlier).text, one, 1_800_000_000)]) {
      audited.tamper('UPDATE cosignatures SET line = ?', line);
      expect(await notesFor([one], 1).witnessed()).toBeUndefined();
      expect((await notesFor([one], 1).cosigned(note)).by).toEqual([]);
    }
    stop = new AbortController();
    start([[one, ask]]);
    await until(async () => (await notes.cosigned(note)).by.length === 1);
  });

  it('keeps the last with enough cosignatures, however many came after it', async () => {
    const { notes, witnessing } = start(
      [
        [one, witness(one)],
        [two, never],
      ],
      2,
    );
    const first = await sign(5, witnessing);
    await until(async () => (await notes.cosigned(first)).by.length === 1);
    const [second] = cosignaturesOf(first + cosign(parseNote(first).text, two, 1_800_000_000), [two]);
    if (second) await notes.add(5, second);
    expect((await notes.witnessed())?.size).toBe(5);
    for (let more = 0; more < 20; more++) {
      const note = await sign(1, witnessing);
      await until(async () => (await notes.cosigned(note)).by.length === 1);
    }
    expect((await notes.witnessed())?.size).toBe(5);
    expect(await notes.checkpoints()).toHaveLength(17);
  });
});

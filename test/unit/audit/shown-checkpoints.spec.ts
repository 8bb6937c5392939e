import { createHash, generateKeyPairSync, randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openWitnessStore } from '../../../src/witness/sqlite-witness-store.js';
import { formatAddCheckpoint } from '../../../src/audit/add-checkpoint.js';
import { Auditor } from '../../../src/audit/auditor.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { GrowingTree, leafHash } from '../../../src/transparency/merkle.js';
import { signerKey } from '../../../src/audit/key.js';
import { ShownCheckpoints } from '../../../src/audit/shown-checkpoints.js';
import { type AskWitness } from '../../../src/audit/add-checkpoint.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type WitnessStore } from '../../../src/witness/witness-store.js';
import { Witness } from '../../../src/witness/witness.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { LogOfLeaves } from '../../support/log-of-leaves.js';
import { sampleMetadata } from '../../support/log-events.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { never, until } from '../../support/waiting.js';
import { signCheckpoint } from '../../../src/transparency/sign.js';

const witnessKey = signerKey('w.example/1', generateKeyPairSync('ed25519').privateKey, 'cosignature');
const now = (): Date => new Date();

describe('an auditor that begins to sign, with a witness', () => {
  let audited: AuditedLog;
  let folder: string;
  let store: WitnessStore;
  let witness: Witness;
  let ends: (() => Promise<void>)[];
  beforeEach(async () => {
    audited = await AuditedLog.open();
    folder = temporaryFolder();
    store = openWitnessStore(join(folder, 'witness.db'));
    witness = new Witness([witnessKey], [audited.key], store, now);
    ends = [];
  });
  afterEach(async () => {
    for (const end of ends) await end();
    store.close();
    await audited.remove();
    rmSync(folder, { recursive: true });
  });

  const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');
  /** The witness, which is asked for its last checkpoint only. */
  const shows: AskWitness = (url, body) => {
    expect([url.startsWith('https://w.example/'), body]).toEqual([true, undefined]);
    return Promise.resolve(witness.checkpoint(/([0-9a-f]{64})\/checkpoint$/.exec(url)?.[1] ?? '', hashOf));
  };
  const cosign = (note: string): void => {
    const request = formatAddCheckpoint({ old: 0, proof: [], note });
    expect(witness.addCheckpoint(Buffer.from(request)).status).toBe(200);
  };

  /** Runs an auditor on the log. */
  const start = (ask: AskWitness, { timeoutMs = 60_000, patienceMs = 60_000 } = {}) => {
    const stopping = new AbortController();
    const targets = [{ key: witnessKey, url: 'https://w.example' }];
    const auditor = new Auditor(audited.log, audited.tree, audited.key, {
      ...{ now, patienceMs: 0, recheckMs: 3_600_000 },
      yieldToLoop: () => nextTurn(),
      onState: () => undefined,
      witnessedBefore: new ShownCheckpoints(audited.log, audited.tree, audited.key, targets, {
        ...{ ask, timeoutMs, patienceMs },
      }),
    });
    const running = auditor.run(stopping.signal);
    const end = async (): Promise<void> => {
      stopping.abort();
      await running;
    };
    ends.push(end);
    return { auditor, end };
  };
  const signed = async (): Promise<number | undefined> => (await audited.tree.latestCheckpoint())?.size;
  const alarm = async () => {
    await until(async () => (await audited.tree.alarm()) !== undefined);
    return audited.tree.alarm();
  };

  it('signs nothing over a tree that was lost where the log was altered since, and raises the alarm', async () => {
    await audited.fill(20);
    cosign(await audited.sign());
    audited.forgetTree();
    audited.alter(`UPDATE events SET data = replace(data, 'ficus', 'ferus') WHERE seq = 20`);
    start(shows);
    expect(await alarm()).toMatchObject({
      kind: 'fork',
      message: expect.stringMatching(
        /^the witness w\.example\/1\+\w+ shows a checkpoint that .* has signed of 20 events, and the first 20 events have another root now: /,
      ) as unknown,
    });
    expect(await signed()).toBeUndefined();
  });

  it('raises it again where it was lifted and nothing else was done, and signs nothing meanwhile', async () => {
    await audited.fill(20);
    cosign(new LogOfLeaves(audited.key, 30).note(10));
    start(shows);
    const first = await alarm();
    await audited.tree.lift('anne', 'a try');
    await until(async () => (await audited.tree.alarm()) !== undefined);
    expect((await audited.tree.alarm())?.message).toBe(first?.message);
    expect(await signed()).toBeUndefined();
  });

  it('signs where the witness shows what the tree holds, and where it shows nothing', async () => {
    await audited.fill(20);
    const { end } = start(shows);
    await until(async () => (await signed()) === 20);
    await end();
    cosign((await audited.tree.latestCheckpoint())?.note ?? '');
    audited.forgetTree();
    await audited.fill(5);
    start(shows);
    await until(async () => (await signed()) === 25);
    expect(await audited.tree.alarm()).toBeUndefined();
  });

  it('does not sign while events are missing that the witness has seen; they come, and it signs', async () => {
    await audited.fill(20);
    await audited.sign();
    await audited.fill(10);
    const tree = new GrowingTree(await audited.grow());
    const stream = plantStream('ada', 1);
    const data = { id: 1, name: 'n', tag: '' };
    const last = { id: randomUUID(), type: 'PlantCreated', data, metadata: sampleMetadata() };
    tree.append(leafHash(leafOf({ ...last, stream, revision: 0n })));
    const { name: origin } = audited.key;
    const body = signCheckpoint({ origin, size: 31, root: tree.root() }, audited.key);
    const asked: string[] = [];
    const { auditor } = start((url) => {
      asked.push(url);
      return Promise.resolve({ status: 200, type: 'text/plain', body });
    });
    // It is live, and one event behind what the witness shows: it holds back until that one comes.
    await until(() => asked.length === 1 && auditor.status.state === 'live');
    expect(await signed()).toBe(20);
    await audited.log.append(stream, 'none', [last]);
    await until(async () => (await signed()) === 31);
    expect(await audited.tree.alarm()).toBeUndefined();
    expect(asked).toHaveLength(1);
  });

  it('raises the alarm where events that the witness has seen do not come', async () => {
    await audited.fill(20);
    cosign(new LogOfLeaves(audited.key, 60).note(50));
    start(shows, { patienceMs: 0 });
    expect((await alarm())?.message).toContain('of 50 events, and this tree has 20: events that were signed');
    expect(await signed()).toBeUndefined();
  });

  it('waits for as long as the tree has yet to read the log: another auditor with this key is ahead', async () => {
    await audited.fill(20);
    cosign(new LogOfLeaves(audited.key, 60).note(50));
    const targets = [{ key: witnessKey, url: 'https://w.example' }];
    const options = { ask: shows, timeoutMs: 60_000, patienceMs: 0 };
    const before = new ShownCheckpoints(audited.log, audited.tree, audited.key, targets, options);
    expect(await before.allow(never())).toBe('later');
    expect(await before.allow(never())).toBe('later');
    await audited.grow();
    expect(await before.allow(never())).toMatchObject({ kind: 'fork' });
  });

  it.each<[string, AskWitness]>([
    ['cannot be reached', () => Promise.reject(new Error('it cannot be reached (ECONNREFUSED)'))],
    ['answers 500', () => Promise.resolve({ status: 500, type: '', body: '' })],
    ['answers rubbish', () => Promise.resolve({ status: 200, type: 'text/html', body: '<html>\n' })],
    [
      'shows what another key has signed',
      () =>
        Promise.resolve({
          ...{ status: 200, type: '' },
          body: new LogOfLeaves(newSigner(audited.key.name), 60).note(50),
        }),
    ],
  ])('signs where it %s', async (_what, ask) => {
    await audited.fill(20);
    start(ask);
    await until(async () => (await signed()) === 20);
    expect(await audited.tree.alarm()).toBeUndefined();
  });

  const silent: AskWitness = (_url, _body, signal) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        reject(new Error('late'));
      });
    });

  it('waits for one that does not answer no longer than it should', async () => {
    await audited.fill(20);
    start(silent, { timeoutMs: 50 });
    await until(async () => (await signed()) === 20);
  });

  it('asks again where it was interrupted', async () => {
    await audited.fill(20);
    cosign(new LogOfLeaves(audited.key, 30).note(10));
    await audited.grow();
    let times = 0;
    const before = new ShownCheckpoints(
      audited.log,
      audited.tree,
      audited.key,
      [{ key: witnessKey, url: 'https://w.example' }],
      {
        ask: (...request) => (times++ === 0 ? silent(...request) : shows(...request)),
        ...{ timeoutMs: 60_000, patienceMs: 0 },
      },
    );
    const stop = new AbortController();
    const interrupted = before.allow(stop.signal);
    stop.abort();
    expect(await interrupted).toBe('later');
    expect(await before.allow(never())).toMatchObject({ kind: 'fork' });
  });
});

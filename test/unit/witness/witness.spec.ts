import { generateKeyPairSync, hash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { openWitnessStore } from '../../../src/witness/sqlite-witness-store.js';
import { formatAddCheckpoint } from '../../../src/audit/add-checkpoint.js';
import { cosignaturesOf } from '../../../src/transparency/cosignature.js';
import { parseNote, verifyNote } from '../../../src/transparency/note.js';
import { mlDsa44Key, signerKey } from '../../../src/audit/key.js';
import { type WitnessStore } from '../../../src/witness/witness-store.js';
import { Witness, type WitnessAnswer } from '../../../src/witness/witness.js';
import { newSigner } from '../../support/audited-log.js';
import { LogOfLeaves } from '../../support/log-of-leaves.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { signNote } from '../../../src/transparency/sign.js';

const log = new LogOfLeaves();
const { name: origin } = log.key;
/** Of the same key, with the same first 40 leaves. */
const secondHistory = new LogOfLeaves(log.key, 300, 'second ', 40);
const witnessKey = signerKey('witness.example/w1', generateKeyPairSync('ed25519').privateKey, 'cosignature');

const EMPTY_ROOT = '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=';

describe('a witness', () => {
  let folder: string;
  let store: WitnessStore;
  let witness: Witness;
  let seconds: number;
  beforeEach(() => {
    folder = temporaryFolder();
    seconds = 1_800_000_000;
    open();
  });
  afterEach(() => {
    store.close();
    rmSync(folder, { recursive: true });
  });

  const open = (): void => {
    store = openWitnessStore(join(folder, 'witness.db'));
    witness = new Witness([witnessKey], [log.key], store, () => new Date(seconds * 1_000));
  };
  const send = (body: string): WitnessAnswer => witness.addCheckpoint(Buffer.from(body));
  const size = (): number => store.last(origin)?.size ?? 0;

  it('cosigns a first checkpoint, and each that is proven to go on from it', () => {
    let last = 0;
    for (const next of [0, 1, 7, 8, 200, 200, 300]) {
      seconds += 1;
      const { status, body } = send(log.request(last, next));
      expect(status).toBe(200);
      expect(cosignaturesOf(log.note(next) + body, [witnessKey])).toEqual([
        { key: witnessKey, time: BigInt(seconds), line: body },
      ]);
      last = next;
      expect(size()).toBe(next);
    }
  });

  it('gives out the last one, with the signatures of the log and its own', () => {
    send(log.request(0, 7));
    const originHash = hash('sha256', origin);
    const { status, body } = witness.checkpoint(originHash, (name) => hash('sha256', name));
    expect(status).toBe(200);
    expect(verifyNote(body, [log.key]).text).toMatch(/\n7\n/);
    expect(cosignaturesOf(body, [witnessKey])).toHaveLength(1);
  });

  it('has no checkpoint of a log before the first, or that it does not follow', () => {
    const hashOf = (name: string): string => hash('sha256', name);
    expect(witness.checkpoint(hashOf(origin), hashOf).status).toBe(404);
    expect(witness.checkpoint(hashOf('other'), hashOf).status).toBe(404);
  });

  it('goes on after a restart from where it was', () => {
    send(log.request(0, 100));
    store.close();
    open();
    expect(send(log.request(0, 50))).toMatchObject({ status: 409, type: 'text/x.tlog.size', body: '100\n' });
    expect(send(log.request(100, 200)).status).toBe(200);
  });

  it.each([
    [0, 60],
    [50, 60],
    [99, 200],
    [150, 200],
  ])('answers 409 with the size that it has where the log believes in another: from %i to %i', (old, to) => {
    send(log.request(0, 100));
    expect(send(log.request(old, to))).toMatchObject({
      status: 409,
      type: 'text/x.tlog.size',
      body: '100\n',
    });
    expect(size()).toBe(100);
  });

  it('cosigns nothing of a second history, and keeps the proof that there is one', () => {
    send(log.request(0, 100));
    const forked = send(secondHistory.request(100, 100));
    expect(forked.status).toBe(422);
    expect(forked.found).toBe(
      `two histories: ${origin} has signed two trees of 100 leaves with different roots`,
    );
    expect(send(secondHistory.request(100, 100))).not.toHaveProperty('found');
    for (const to of [101, 200, 300]) expect(send(secondHistory.request(100, to)).status).toBe(422);
    const [evidence, ...more] = store.forks(origin);
    expect(more).toEqual([]);
    expect(verifyNote(evidence?.refused ?? '', [log.key]).text).not.toBe(
      verifyNote(evidence?.cosigned ?? '', [log.key]).text,
    );
    expect(send(log.request(100, 101)).status).toBe(200);
  });

  it('keeps a few such proofs, however many are sent', () => {
    send(log.request(0, 100));
    for (let history = 0; history < 15; history++)
      send(new LogOfLeaves(log.key, 100, `history ${history} `).request(0, 100));
    expect(store.forks(origin)).toHaveLength(10);
  });

  it.each([
    ['no proof', () => formatAddCheckpoint({ old: 100, proof: [], note: log.note(200) })],
    [
      'a hash too many',
      () =>
        formatAddCheckpoint({ old: 100, proof: [...log.proof(100, 200), log.root(1)], note: log.note(200) }),
    ],
    [
      'the proof of other sizes',
      () => formatAddCheckpoint({ old: 100, proof: log.proof(101, 200), note: log.note(200) }),
    ],
    [
      'a proof where there is nothing to prove',
      () => formatAddCheckpoint({ old: 100, proof: [log.root(1)], note: log.note(100) }),
    ],
  ])('answers 422 to %s', (_what, body) => {
    send(log.request(0, 100));
    expect(send(body())).toMatchObject({ status: 422 });
    expect(size()).toBe(100);
  });

  it('answers 422 to a proof about the empty tree, and to an empty tree with another root', () => {
    expect(send(formatAddCheckpoint({ old: 0, proof: [log.root(1)], note: log.note(5) })).status).toBe(422);
    const note = (root: string): string => signNote(`${origin}\n0\n${root}\n`, log.key);
    const other = Buffer.from(log.root(1)).toString('base64');
    expect(send(formatAddCheckpoint({ old: 0, proof: [], note: note(other) })).status).toBe(422);
    expect(send(formatAddCheckpoint({ old: 0, proof: [], note: note(EMPTY_ROOT) })).status).toBe(200);
  });

  it('answers 404 to a log that it does not follow', () => {
    expect(send(new LogOfLeaves(newSigner('other.example')).request(0, 5)).status).toBe(404);
  });

  it('answers 403 to a checkpoint that the log has not signed, whoever else has', () => {
    expect(send(new LogOfLeaves(newSigner(origin)).request(0, 5)).status).toBe(403);
    const bytes = Buffer.from(log.note(5).trimEnd().split(' ').at(-1) ?? '', 'base64');
    bytes[30] = (bytes[30] ?? 0) ^ 1;
    const [text] = log.note(5).split('\n\n');
    expect(send(`old 0\n\n${text}\n\n— ${origin} ${bytes.toString('base64')}\n`).status).toBe(403);
    expect(size()).toBe(0);
  });

  it('leaves out signatures of others in what it keeps, and cosigns what has them', () => {
    const other = signNote(parseNote(log.note(5)).text, newSigner('somebody.example'));
    const theirs = other.split('\n').at(-2) ?? '';
    expect(send(`${log.request(0, 5)}${theirs}\n`).status).toBe(200);
    expect(store.last(origin)?.note).not.toContain('somebody');
  });

  it.each([
    ['nothing', ''],
    ['no checkpoint', 'old 0\n\n'],
    ['a note that is no checkpoint', 'old 0\n\nhello\n\n— a AAAAAAAA\n'],
    ['an old size above the new one', log.request(0, 5).replace('old 0', 'old 6')],
    ['a checkpoint that is cut off', log.request(0, 5).trimEnd()],
  ])('answers 400 to %s', (_what, body) => {
    expect(send(body).status).toBe(400);
  });

  it('answers 400 to what is not UTF-8', () => {
    expect(witness.addCheckpoint(Buffer.of(0xff, 0xfe)).status).toBe(400);
  });

  it('gives the same cosignature to who repeats a request in the same second', () => {
    const first = send(log.request(0, 100));
    expect(send(log.request(100, 100))).toEqual(first);
  });

  it('never cosigns two trees that contradict each other, whatever is sent in whatever order', () => {
    const histories = [log, secondHistory];
    const requests = fc.array(
      fc.record({ history: fc.integer({ min: 0, max: 1 }), old: fc.nat(80), more: fc.nat(40) }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(requests, (sent) => {
        const own = temporaryFolder();
        const memory = openWitnessStore(join(own, 'witness.db'));
        const fresh = new Witness([witnessKey], [log.key], memory, () => new Date());
        const cosigned: [number, Uint8Array][] = [[0, log.root(0)]];
        try {
          for (const { history, old, more } of sent) {
            const of = histories[history] ?? log;
            const [from] = cosigned.at(-1) ?? [0];
            for (const start of [old, from]) {
              const to = Math.min(start + more, 300);
              if (fresh.addCheckpoint(Buffer.from(of.request(start, to))).status === 200)
                cosigned.push([to, of.root(to)]);
            }
          }
        } finally {
          memory.close();
          rmSync(own, { recursive: true });
        }
        const isOf = (history: LogOfLeaves): boolean =>
          cosigned.every(([to, root]) => Buffer.compare(history.root(to), root) === 0);
        const sizes = cosigned.map(([to]) => to);
        return (isOf(log) || isOf(secondHistory)) && sizes.every((to, at) => to >= (sizes[at - 1] ?? 0));
      }),
      { numRuns: 30 },
    );
  });

  it('refuses a log whose name a cosignature of ML-DSA-44 cannot state, and remembers nothing of it', async () => {
    const named = new LogOfLeaves(newSigner('n'.repeat(256)));
    const both = [witnessKey, await mlDsa44Key('witness.example/w1', Buffer.alloc(32))];
    const asked = new Witness(both, [named.key], store, () => new Date());
    const { status, body } = asked.addCheckpoint(Buffer.from(named.request(0, 5)));
    expect([status, body]).toEqual([400, 'a name in cosignatures of ML-DSA-44 has at most 255 bytes\n']);
    expect(store.last(named.key.name)).toBeUndefined();
  });

  it('is one witness in two processes: what the other has cosigned counts', () => {
    const beside = openWitnessStore(join(folder, 'witness.db'));
    try {
      const other = new Witness([witnessKey], [log.key], beside, () => new Date());
      expect(send(log.request(0, 100)).status).toBe(200);
      expect(other.addCheckpoint(Buffer.from(log.request(0, 50)))).toMatchObject({
        status: 409,
        body: '100\n',
      });
    } finally {
      beside.close();
    }
  });
});

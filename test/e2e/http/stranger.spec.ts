import { beforeAll, describe, expect, it } from '@jest/globals';
import { createHash, randomUUID } from 'node:crypto';
import { type Checkpoint, openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { verifyConsistency } from '../../../src/transparency/merkle.js';
import { parseVerifierKey, type VerifierKey } from '../../../src/transparency/note.js';
import { entriesOf } from '../../support/entry-bundle.js';
import { runCli } from '../../support/http-cli.js';
import { HttpCache } from '../../support/http-cache.js';
import { served } from '../../support/http-client.js';

/** Hashes in a full tile (C2SP tlog-tiles). */
const WIDTH = 256;

const http = served();
let key: VerifierKey;

beforeAll(async () => {
  const printed = await runCli(['audit-key', '--json'], http.service.env);
  key = parseVerifierKey((JSON.parse(printed.stdout) as { vkey: string }).vkey);
});

/** Writes until the signed tree holds `count` events more than `size`. */
const grow = async (size: number, count: number): Promise<void> => {
  const token = await http.token(randomUUID());
  for (let id = 0; id < count; id += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        http.create({ id: id + at, name: 'n', tag: '' }, { token, headers: { prefer: 'respond-async' } }),
      ),
    );
  for (let signed = 0; signed < size + count;) {
    const answer = await http.send({ path: '/log/checkpoint' });
    signed = Number(answer.text.split('\n')[1]);
  }
};

/** A client that has the verifier key and no token. */
const checkpointOf = async (cache: HttpCache): Promise<Checkpoint> => {
  const { status, body } = await cache.get('/log/checkpoint');
  expect(status).toBe(200);
  return openCheckpoint(body.toString(), key.name, [key]);
};

const pathOf = (level: number, index: number, width: number): string =>
  `/log/tile/${level}/${String(index).padStart(3, '0')}${width < WIDTH ? `.p/${width}` : ''}`;

const split = (bytes: Buffer): Buffer[] =>
  Array.from({ length: bytes.length / 32 }, (_, at) => bytes.subarray(at * 32, at * 32 + 32));

/** All hashes of one level of tiles in a tree of `size` leaves. */
const hashesOf = async (cache: HttpCache, level: number, size: number): Promise<Buffer[]> => {
  const count = Math.floor(size / WIDTH ** level);
  const hashes: Buffer[] = [];
  for (let from = 0; from < count; from += WIDTH) {
    const width = Math.min(WIDTH, count - from);
    const { status, body } = await cache.get(pathOf(level, from / WIDTH, width));
    expect([level, from, status, body.length]).toEqual([level, from, 200, width * 32]);
    hashes.push(...split(body));
  }
  return hashes;
};

/** The root of a tree by the hashes of its leaves: RFC 9162, section 2.1.1. */
const rootOf = (leaves: readonly Buffer[]): Buffer => {
  const [first] = leaves;
  if (!first) return createHash('sha256').digest();
  if (leaves.length === 1) return first;
  const left = 2 ** Math.ceil(Math.log2(leaves.length) - 1);
  return createHash('sha256')
    .update(Buffer.of(1))
    .update(rootOf(leaves.slice(0, left)))
    .update(rootOf(leaves.slice(left)))
    .digest();
};

describe('somebody without a token, behind a cache', () => {
  it('follows the log from one checkpoint to another, by proofs and by tiles, and costs the service hardly anything', async () => {
    const cache = new HttpCache(http.service.url);
    await grow(0, WIDTH + 20);
    const older = await checkpointOf(cache);
    expect(Buffer.from(older.root)).toEqual(rootOf(await hashesOf(cache, 0, older.size)));

    await grow(older.size, WIDTH);
    expect((await cache.get('/log/checkpoint')).headers.get('age')).toBe('0');
    expect((await checkpointOf(cache)).size).toBe(older.size); // still fresh
    cache.pass(1);
    const newer = await checkpointOf(cache);
    expect(newer.size).toBeGreaterThanOrEqual(older.size + WIDTH);

    const path = `/log/proof/consistency?from=${older.size}&to=${newer.size}`;
    const answer = JSON.parse(String((await cache.get(path)).body)) as { proof: string[] };
    const proof = answer.proof.map((hash) => Buffer.from(hash, 'base64'));
    const claim = { first: older.size, second: newer.size, firstRoot: older.root, secondRoot: newer.root };
    verifyConsistency({ ...claim, proof });

    const leaves = await hashesOf(cache, 0, newer.size);
    expect(rootOf(leaves)).toEqual(Buffer.from(newer.root));
    expect(rootOf(leaves.slice(0, older.size))).toEqual(Buffer.from(older.root));
    const above = await hashesOf(cache, 1, newer.size);
    expect(above).toEqual(above.map((_, at) => rootOf(leaves.slice(at * WIDTH, (at + 1) * WIDTH))));

    // Nothing was asked of the service twice, but for the checkpoint; and nothing at all for those who come next.
    const asked = cache.asked.splice(0);
    expect(asked.filter((one, at) => asked.indexOf(one) !== at)).toEqual(['200 /log/checkpoint']);
    for (let others = 0; others < 3; others++) {
      await checkpointOf(cache);
      await cache.get(path);
      await hashesOf(cache, 0, newer.size);
    }
    expect(cache.asked).toEqual([]);
  });

  it('is given a partial tile again after its minute, without its bytes, and a full one as it was', async () => {
    const cache = new HttpCache(http.service.url);
    const full = pathOf(0, 0, WIDTH);
    const partial = pathOf(0, 0, 10);
    const first = (await cache.get(partial)).body;
    await cache.get(full);
    cache.pass(61);
    expect((await cache.get(partial)).body).toEqual(first);
    expect((await cache.get(full)).headers.get('age')).toBe('61');
    await cache.get(partial);
    expect(cache.asked).toEqual([`200 ${partial}`, `200 ${full}`, `304 ${partial}`]);
  });

  it('learns nothing from what a cache has seen of auditors, nor that a tile was not there yet', async () => {
    const cache = new HttpCache(http.service.url);
    const bundle = '/log/tile/entries/000';
    const auditor = { authorization: `Bearer ${await http.token('auditor', 'plants:audit')}` };
    for (const coding of ['gzip', 'identity']) {
      const { status, body } = await cache.get(bundle, { ...auditor, 'accept-encoding': coding });
      expect([status, entriesOf(body).length]).toEqual([200, WIDTH]);
    }
    expect((await cache.get(bundle)).status).toBe(401);
    expect(cache.asked).toEqual([`200 ${bundle}`, `200 ${bundle}`, `401 ${bundle}`]);

    const { size } = await checkpointOf(cache);
    const beyond = Math.ceil(size / WIDTH);
    expect((await cache.get(pathOf(0, beyond, WIDTH))).status).toBe(404);
    await grow(size, (beyond + 1) * WIDTH - size);
    expect((await cache.get(pathOf(0, beyond, WIDTH))).status).toBe(200);
  });
});

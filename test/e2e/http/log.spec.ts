import { beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Checkpoint, openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { leafOf } from '../../../src/audit/leaf.js';
import {
  GrowingTree,
  type Hash,
  leafHash,
  verifyConsistency,
  verifyInclusion,
} from '../../../src/transparency/merkle.js';
import { rootOf } from '../../../src/transparency/prove-tree.js';
import { type Receipt, verifyReceipt } from '../../../src/transparency/receipt.js';
import { verifyListProof } from '../../../src/transparency/list-proof.js';
import { formatVerifierKey, parseVerifierKey, type VerifierKey } from '../../../src/transparency/note.js';
import { TILE_WIDTH, tilePath, tileReader } from '../../../src/transparency/tiles.js';
import { type RecordedEvent } from '../../../src/log/event-log.js';
import { entriesOf } from '../../support/entry-bundle.js';
import { runCli } from '../../support/http-cli.js';
import { resolved } from '../../support/history-client.js';
import { type Answer, problemIn, served } from '../../support/http-client.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { proven, trusting } from '../../support/verified.js';

/** A name that is unique on a shared server. */
const anne = `anne ${randomUUID()}`;
const bob = `bob ${randomUUID()}`;

const http = served();
let audit: string;
let key: VerifierKey;
let first: Answer;

beforeAll(async () => {
  audit = await http.token('auditor', 'plants:audit');
  const token = await http.token(anne);
  first = await http.create({ id: 1, name: 'Φίκος', tag: '' }, { token, headers: { prefer: 'receipt' } });
  for (let id = 2; id < 20; id++)
    await http.create({ id, name: `n${id}`, tag: '' }, { token, headers: { prefer: 'respond-async' } });
  const printed = await runCli(['audit-key', '--json'], http.service.env);
  key = parseVerifierKey((JSON.parse(printed.stdout) as { vkey: string }).vkey);
});

const get = (path: string, token?: string): Promise<Answer> => http.send({ path, token });
const bytes = async (path: string, token?: string): Promise<Buffer> => {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(`${http.service.url}/log/${path}`, { headers });
  expect([path, answer.status, answer.headers.get('content-type')]).toEqual([
    path,
    200,
    'application/octet-stream',
  ]);
  return Buffer.from(await answer.arrayBuffer());
};
const hash = (text: string): Hash => Buffer.from(text, 'base64');

/** The checkpoint, once it covers the whole log as it is now. */
const covering = async (): Promise<{ checkpoint: Checkpoint; events: RecordedEvent[] }> => {
  for (;;) {
    const answer = await get('/log/checkpoint');
    const events = await http.service.events();
    if (answer.status !== 200) continue;
    const checkpoint = openCheckpoint(answer.text, key.name, [key]);
    if (checkpoint.size >= events.length) return { checkpoint, events };
  }
};

describe('/log', () => {
  it('publishes a checkpoint of what the log holds, to anybody', async () => {
    const { checkpoint, events } = await covering();
    const tree = new GrowingTree();
    for (const event of events.slice(0, checkpoint.size)) tree.append(leafHash(leafOf(event)));
    expect(Buffer.from(checkpoint.root)).toEqual(Buffer.from(tree.root()));
    expect(checkpoint.origin).toBe(`plants/${(await http.service.log()).identity()}`);
    const { headers } = await get('/log/checkpoint');
    expect(headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(headers['cache-control']).toBe('public, max-age=1');
  });

  it('publishes the root of its state, signed in a note of its own', async () => {
    const { status, text, headers } = await get('/log/state');
    expect([status, headers['content-type'], headers['cache-control']]).toEqual([
      200,
      'text/plain; charset=utf-8',
      'public, max-age=1',
    ]);
    const { size, root, stateRoot } = openCheckpoint(text, key.name, [key]);
    const tree = new GrowingTree();
    for (const event of (await http.service.events()).slice(0, size)) tree.append(leafHash(leafOf(event)));
    expect(Buffer.from(root)).toEqual(Buffer.from(tree.root()));
    expect(stateRoot).toHaveLength(32);
  });

  it('publishes the tiles that this root is made of, and to auditors the entries', async () => {
    const { checkpoint, events } = await covering();
    const { size } = checkpoint;
    const leaves = events.map(leafOf);
    const tiles = new Map<number, Buffer>();
    for (let index = 0; index * TILE_WIDTH < size; index++) {
      const width = Math.min(TILE_WIDTH, size - index * TILE_WIDTH);
      const hashes = await bytes(tilePath({ level: 0, index, width }));
      tiles.set(index, hashes);
      const bundle = await bytes(tilePath({ level: 'entries', index, width }), audit);
      const entries = entriesOf(bundle);
      expect(entries).toHaveLength(width);
      for (const [at, leaf] of entries.entries()) {
        expect(leaf).toEqual(leaves[index * TILE_WIDTH + at]);
        expect(hashes.subarray(at * 32, at * 32 + 32)).toEqual(leafHash(leaf));
      }
    }
    const below = tileReader((_level, index) => tiles.get(index));
    if (size < TILE_WIDTH) expect(Buffer.from(rootOf(size, below))).toEqual(Buffer.from(checkpoint.root));
  });

  it('compresses entries for clients that accept it, and has an entity tag for each coding', async () => {
    const { size } = (await covering()).checkpoint;
    const path = `/log/tile/entries/000.p/${Math.min(size, 5)}`;
    const ask = (accepted: string, fields: Record<string, string> = {}): Promise<Response> =>
      fetch(http.service.url + path, {
        headers: { authorization: `Bearer ${audit}`, 'accept-encoding': accepted, ...fields },
      });
    const [zipped, plain] = [await ask('gzip, identity'), await ask('identity')];
    const shown = (answer: Response): unknown[] =>
      ['content-encoding', 'vary', 'cache-control'].map((name) => answer.headers.get(name));
    expect(shown(zipped)).toEqual(['gzip', 'accept-encoding', 'private, max-age=60']);
    expect(shown(plain)).toEqual([null, 'accept-encoding', 'private, max-age=60']);
    expect(Number(zipped.headers.get('content-length'))).toBeLessThan(
      Number(plain.headers.get('content-length')),
    );
    expect(await zipped.arrayBuffer()).toEqual(await plain.arrayBuffer());
    const etag = zipped.headers.get('etag') ?? '';
    expect(etag).not.toBe(plain.headers.get('etag'));
    const again = await ask('gzip', { 'if-none-match': etag });
    expect([again.status, ...shown(again), again.headers.get('etag')]).toEqual([
      304,
      null,
      'accept-encoding',
      'private, max-age=60',
      etag,
    ]);
    expect((await ask('identity', { 'if-none-match': etag })).status).toBe(200);
  });

  it('has one path for each tile, and none beyond the tree', async () => {
    const { size } = (await covering()).checkpoint;
    const width = Math.min(size, 5);
    const path = `/log/tile/0/000.p/${width}`;
    expect((await get(path)).headers['cache-control']).toBe('public, max-age=60');
    for (const other of [
      `/log/tile/0/0.p/${width}`,
      `/log/tile/00/000.p/${width}`,
      `/log/tile/0/000.p/0${width}`,
      `/log/tile/0/%3000.p/${width}`,
      '/log/tile/0/x001/x234/067',
      '/log/tile/64/000',
      '/log/tile/0/000.p/0',
      '/log/tile/0/000.p/256',
      '/log/tile/7/000.p/1',
      '/log/tile/a/000',
      '/log/tile/0/../../../etc/passwd',
    ])
      expect([other, (await get(other)).status]).toEqual([other, 404]);
    expect((await get(`${path}?a=1`)).status).toBe(400);
    expect((await get(`/log/tile/entries/000.p/${width}`)).status).toBe(401);
    expect((await get(`/log/tile/entries/000.p/${width}`, await http.token(anne))).status).toBe(403);
    await http.refused(get('/log/tile/entries/999', audit), 404, 'entry_not_found');
  });

  it('answers tiles whose slashes are encoded to the same readers', async () => {
    const { size } = (await covering()).checkpoint;
    const width = Math.min(size, 5);
    for (const slash of ['%2F', '%2f']) {
      expect(await bytes(`tile/0/000.p${slash}${width}`)).toEqual(await bytes(`tile/0/000.p/${width}`));
      const entries = `tile/entries/000.p${slash}${width}`;
      expect(await bytes(entries, audit)).toEqual(await bytes(`tile/entries/000.p/${width}`, audit));
      expect((await get(`/log/${entries}`)).status).toBe(401);
      // The route of public hashes takes these, and must not answer them with entries.
      for (const other of [
        `/log/tile/entries${slash}000.p/${width}`,
        `/log/tile${slash}entries/000.p/${width}`,
        `/log/tile/x/..${slash}entries/000.p/${width}`,
        `/l%6fg/tile/0/000.p${slash}${width}`,
      ])
        expect([other, (await get(other)).status]).toEqual([other, 404]);
    }
  });

  it('proves that an event is in the tree, and that the tree only grew', async () => {
    const { checkpoint, events } = await covering();
    const position = String(first.headers['plants-position']);
    const index = events.findIndex((event) => event.position === position);
    for (const query of [`position=${position}`, `index=${index}`, `index=${index}&size=${index + 1}`]) {
      const answer = await get(`/log/proof/inclusion?${query}`, audit);
      expect([query, answer.status]).toEqual([query, 200]);
      const proof = JSON.parse(answer.text) as Record<'size', number> &
        Record<'leafHash' | 'root', string> & { proof: string[] };
      expect(hash(proof.leafHash)).toEqual(events.map(leafOf).map(leafHash)[index]);
      verifyInclusion({
        index,
        size: proof.size,
        leafHash: hash(proof.leafHash),
        root: hash(proof.root),
        proof: proof.proof.map(hash),
      });
    }
    const from = index + 1;
    const answer = await get(`/log/proof/consistency?from=${from}&to=${checkpoint.size}`); // without a token
    expect(answer.headers['cache-control']).toBe('public, max-age=3600');
    const latest = await get(`/log/proof/consistency?from=${from}`);
    expect(latest.headers['cache-control']).toBe('public, max-age=1');
    const proof = JSON.parse(answer.text) as Record<'fromRoot' | 'toRoot', string> & { proof: string[] };
    expect(hash(proof.toRoot)).toEqual(Buffer.from(checkpoint.root));
    verifyConsistency({
      first: from,
      second: checkpoint.size,
      firstRoot: hash(proof.fromRoot),
      secondRoot: hash(proof.toRoot),
      proof: proof.proof.map(hash),
    });
    for (const [path, pointer] of [
      ['inclusion', '?index'],
      ['inclusion?index=1&position=0000000000000001', '?index'],
      ['inclusion?index=01', '?index'],
      ['inclusion?index=99999999', '?index'],
      ['inclusion?index=1&size=1', '?index'],
      ['inclusion?index=0&size=99999999', '?size'],
      [`inclusion?position=${String(first.headers['plants-position'])}&size=0`, '?size'],
      ['consistency', '?from'],
      ['consistency?from=0', '?from'],
      ['consistency?from=99999999', '?from'],
      ['consistency?from=2&to=1', '?from'],
      ['consistency?from=1&to=99999999', '?to'],
    ] as const)
      problemIn(await get(`/log/proof/${path}`, audit), 400, 'invalid_request', [pointer]);
    expect((await get('/log/proof/inclusion?index=0', await http.token(anne))).status).toBe(403);
    expect((await get('/log/proof/inclusion?index=0')).status).toBe(401);
  });

  it('gives the owner of an event a receipt, which proves it offline, and nobody else', async () => {
    expect(first.headers['preference-applied']).toBe('receipt');
    const [, receiptAt = ''] =
      /^<(log\/receipt\?position=\w+)>; rel="receipt"$/.exec(String(first.headers.link)) ?? [];
    const path = resolved(receiptAt, '/plants');
    const answer = await get(path, await http.token(anne));
    expect(answer.status).toBe(200);
    expect(answer.headers['cache-control']).toBe('no-store');
    const receipt = JSON.parse(answer.text) as Receipt & {
      event: Omit<RecordedEvent, 'position' | 'revision'> & { revision: number };
    };
    expect(receipt.event).toMatchObject({
      type: 'PlantCreated',
      data: { id: 1, name: 'Φίκος' },
      revision: 0,
    });
    await proven(verifyReceipt(answer.text, trusting(key)));
    const forged = JSON.stringify({ ...receipt, event: { ...receipt.event, revision: 1 } });
    await expect(proven(verifyReceipt(forged, trusting(key)))).rejects.toThrow('is not proven');

    await http.refused(get(path, await http.token(bob)), 404, 'entry_not_found');
    expect((await get(path, await http.token('auditor', 'plants:read plants:audit'))).status).toBe(200);
    expect((await get(path)).status).toBe(401);
    await http.refused(get('/log/receipt', await http.token(anne)), 400, 'invalid_request', ['?position']);
    const beyond = '9'.repeat(String(first.headers['plants-position']).length);
    await http.refused(
      get(`/log/receipt?position=${beyond}`, await http.token(anne)),
      400,
      'position_unknown',
      ['?position'],
    );
  });

  it('gives a receipt as C2SP tlog-proof to whoever prefers text', async () => {
    const token = await http.token(anne);
    const path = `/log/receipt?position=${String(first.headers['plants-position'])}`;
    const { event, index } = JSON.parse((await get(path, token)).text) as { event: unknown; index: number };
    const answer = await http.send({ path, token, headers: { accept: 'text/plain' } });
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8']);
    const [, extra = '', number] =
      /^c2sp\.org\/tlog-proof@v1\nextra (\S+)\nindex (\d+)\n(?:\S+\n)*\n[^]+$/.exec(answer.text) ?? [];
    const leaf = Buffer.from(extra, 'base64');
    expect([JSON.parse(leaf.toString('utf8')), Number(number)]).toEqual([event, index]);
    await proven(verifyReceipt(answer.text, trusting(key)));
    await http.refused(http.send({ path, token, headers: { accept: 'image/png' } }), 406, 'not_acceptable');
  });

  it('gives a receipt for a write right after it, by both preferences at once', async () => {
    const token = await http.token(anne);
    const written = await http.delete(2, { token, headers: { prefer: 'respond-async, receipt' } });
    expect(written.headers['preference-applied']).toBe('respond-async, receipt');
    const answer = await get(`/log/receipt?position=${String(written.headers['plants-position'])}`, token);
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({ event: { type: 'PlantDeleted' } });
  });

  it('proves the list of whoever asks, which plants check verifies offline', async () => {
    const token = await http.token(anne);
    const prefer = { prefer: 'proof' };
    const listed = await http.send({ path: '/plants?limit=5', token, headers: prefer });
    const plain = await http.send({ path: '/plants?limit=5', token });
    expect([listed.status, listed.text, listed.headers.etag]).toEqual([200, plain.text, plain.headers.etag]);
    expect(listed.headers['preference-applied']).toBe('proof');
    expect(plain.headers.link).toMatch(/^<[^>]*>; rel="next"$/);
    const [, next, path = ''] =
      /^(<[^>]*>; rel="next"), <(log\/list\?[^>]*)>; rel="proof"$/.exec(String(listed.headers.link)) ?? [];
    expect(next).toBe(plain.headers.link);
    const answer = await get(resolved(path, '/plants'), token);
    expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store']);
    const list = await proven(verifyListProof(answer.text, trusting(key)));
    expect(list).toMatchObject({ owner: anne, isLast: false });
    expect(
      list.plants.map(({ event }) => {
        const { name, tag } = event.data as { name: string; tag: string };
        return { name, tag };
      }),
    ).toEqual(JSON.parse(listed.text));

    const file = join(temporaryFolder(), 'list.proof');
    writeFileSync(file, answer.text);
    const args = ['check', file, '--key', formatVerifierKey(key)];
    const checked = await runCli([...args, '--owner', anne], {});
    expect([checked.status, checked.stdout.split('\n', 1)[0]]).toEqual([
      0,
      expect.stringMatching(
        /^proven: of the plants of "anne .*, these are the first 5, none is left out between them/,
      ),
    ]);
    const other = await runCli([...args, '--owner', bob], {});
    expect([other.status, other.stdout]).toEqual([
      1,
      expect.stringMatching(/^refused: the list is of "anne /),
    ]);
    const name = `nobody ${randomUUID()}`;
    await http.refused(get('/log/list', await http.token(name)), 404, 'entry_not_found');
    const nobody = await get('/log/list', await http.token(name, 'plants:read plants:audit'));
    expect(await verifyListProof(nobody.text, trusting(key))).toMatchObject({ plants: [], isLast: true });
    expect((await get('/log/list')).status).toBe(401);
    await http.refused(get('/log/list?limit=0', token), 400, 'invalid_request', ['?limit']);
  });

  it('tells auditors which alarm stands, and nobody else', async () => {
    const answer = await get('/log/alarm', audit);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, { alarm: null }]);
    expect((await get('/log/alarm')).status).toBe(401);
    expect((await get('/log/alarm', await http.token(anne))).status).toBe(403);
  });

  it('shows itself in status, health and metrics', async () => {
    const { size } = (await covering()).checkpoint;
    expect(JSON.parse((await get('/health/ready')).text)).toMatchObject({
      details: { auditor: { status: 'up', state: 'live' } },
    });
    expect((await get('/metrics')).text).toMatch(/^plants_tree_alarm 0$/m);
    let shown = 0;
    while (shown < size) {
      const { stdout } = await runCli(['status'], http.service.env); // told every two seconds
      expect(stdout).not.toMatch(/PROBLEM .*auditor/);
      shown = Number(
        /^tree +(\d+) events up to \d+; last checkpoint of \d+, .* is live$/m.exec(stdout)?.[1] ?? 0,
      );
    }
  });
});

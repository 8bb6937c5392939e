import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { checkFile } from '../../../console/check-file.js';
import { leafHash } from '../../../src/transparency/merkle.js';
import { ListProofs } from '../../../src/audit/list-proofs.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { formatVerifierKey } from '../../../src/transparency/note.js';
import { PublishedTree } from '../../../src/audit/published-tree.js';
import {
  type Receipt,
  receiptText,
  tlogProofText,
  verifyEntry,
  verifyReceipt,
} from '../../../src/transparency/receipt.js';
import { type Trust } from '../../../src/transparency/signed.js';
import { leavesIn } from '../../../src/transparency/event.js';
import { encodeBundle } from '../../../src/transparency/tiles.js';
import { type RecordedEvent, START } from '../../../src/log/event-log.js';
import { randomOf } from '../../support/altered/kind.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { trustOf } from '../../support/verified.js';
import { all } from '../../support/log-events.js';
import { signCheckpoint } from '../../../src/transparency/sign.js';

const EVENTS = 40;

let log: AuditedLog;
let trust: Trust;
let events: readonly RecordedEvent[];
let tree: PublishedTree;

beforeAll(async () => {
  log = await AuditedLog.open();
  await log.fill(EVENTS);
  await log.sign();
  trust = trustOf({ key: formatVerifierKey(log.key) });
  events = await all(log.log.readAll(START));
  tree = new PublishedTree(
    log.log,
    log.tree,
    () => new Date(),
    () => undefined,
    [log.key],
  );
});
afterAll(() => log.remove());

const base64 = (hash: Uint8Array): string => Buffer.from(hash).toString('base64');

/** The leaf and the proof of a receipt of the event with this index, made as the service makes them. */
const receiptParts = async (index: number): Promise<{ leaf: Buffer; rest: Omit<Receipt, 'event'> }> => {
  const event = events[index];
  if (!event) throw new Error(`there is no event ${index}`);
  const { note, size } = await tree.checkpoint();
  const { proof } = await tree.inclusion(index, size);
  return { leaf: leafOf(event), rest: { index, proof: proof.map(base64), checkpoint: note } };
};

const said = async (text: string): Promise<string> => {
  const result = await verifyReceipt(text, trust);
  return result.verdict === 'refused' ? `refused: ${result.reason}` : result.verdict;
};

const golden = (name: string): Buffer => readFileSync(`test/golden/${name}`);
const fileOf = (content: string | Uint8Array): Blob => new Blob([Uint8Array.from(Buffer.from(content))]);

describe('a receipt in the console', () => {
  it('is proven in both forms, with the event and who signed', async () => {
    for (let index = 0; index < EVENTS; index++) {
      const { leaf, rest } = await receiptParts(index);
      for (const text of [receiptText(leaf, rest), tlogProofText(leaf, rest)])
        expect(await verifyReceipt(text, trust)).toMatchObject({
          verdict: 'proven',
          index,
          size: EVENTS,
          isErased: false,
          event: JSON.parse(leaf.toString()) as unknown,
          signedBy: `${log.key.name}+${log.key.id}`,
        });
    }
  });

  it('that an earlier version gave is proven', async () => {
    const known = trustOf({ key: golden('plants.vkey').toString().trim() });
    for (const name of ['receipt-1.json', 'receipt-2.json'])
      expect(await verifyReceipt(golden(name).toString(), known)).toMatchObject({
        verdict: 'proven',
        size: 106,
      });
  });

  it('is refused with any letter changed, in both forms', async () => {
    const random = randomOf(3);
    const taken: string[] = [];
    let refused = 0;
    for (let time = 0; time < 400; time++) {
      const { leaf, rest } = await receiptParts(random(EVENTS));
      const text = time % 2 === 0 ? receiptText(leaf, rest) : tlogProofText(leaf, rest);
      const at = random(text.length);
      const letter = String.fromCharCode(33 + random(90));
      const changed = text.slice(0, at) + letter + text.slice(at + 1);
      if (changed === text) continue;
      const verdict = await said(changed);
      if (verdict === 'proven') taken.push(changed);
      else refused += 1;
    }
    expect(taken).toEqual([]);
    expect(refused).toBeGreaterThan(380);
  });

  it('names the first thing that does not fit', async () => {
    const { leaf, rest } = await receiptParts(7);
    const other = await receiptParts(8);
    const text = (changes: Partial<Receipt>, event: Uint8Array = leaf): string =>
      receiptText(event, { ...rest, ...changes });
    const says: [string, RegExp][] = [
      [
        text({}, other.leaf),
        /^refused: leaf 7 is not proven to be in the tree of 40: the proof does not come to/,
      ],
      [text({ index: 8 }), /leaf 8 is not proven/],
      [text({ index: 41 }), /there is no such leaf/],
      [text({ proof: rest.proof.slice(1) }), /the proof is too short/],
      [text({ proof: [...rest.proof, ...rest.proof] }), /the proof is too long/],
      [text({ proof: ['?'] }), /a hash of the proof is not base64/],
      [text({ proof: ['AAAA'] }), /is not hashes of 32 bytes/],
      [
        text({ checkpoint: rest.checkpoint.replace('\n40\n', '\n41\n') }),
        /^refused: its checkpoint: line 5: the sig/,
      ],
      ['{"event":{}}', /this is not a receipt, which has event, index, proof and checkpoint/],
      ['[]', /this is not a receipt/],
      ['x', /this is not a receipt/],
      ['c2sp.org/tlog-proof@v1\n', /as a tlog-proof, it has the event as extra data/],
      [tlogProofText(leaf, rest).replace('\nindex 7\n', '\nindex 07\n'), /as a tlog-proof, it has the event/],
      [tlogProofText(leaf, rest).replace(/extra .*\n/, ''), /as a tlog-proof, it has the event/],
    ];
    for (const [changed, reason] of says) expect(await said(changed)).toMatch(reason);
    expect((await verifyReceipt(text({}), { ...trust, keys: [] })).verdict).toBe('consistent');
    const stranger = trustOf({ key: formatVerifierKey(newSigner()) });
    expect(await verifyReceipt(text({}), stranger)).toMatchObject({ verdict: 'refused' });
  });

  it('is of an event, and not of whatever else somebody has put into a tree', async () => {
    const leaf = Buffer.from('{"a":1}');
    const checkpoint = signCheckpoint({ origin: log.key.name, size: 1, root: leafHash(leaf) }, log.key);
    expect(await said(receiptText(leaf, { index: 0, proof: [], checkpoint }))).toBe(
      'refused: this is no event of the plant store',
    );
  });
});

describe('an entry in the console', () => {
  it('is proven by its leaf as the entry bundles hold it', async () => {
    const leaves = leavesIn(encodeBundle(events.map(leafOf)));
    expect(leaves).toHaveLength(EVENTS);
    for (const [index, leaf] of (leaves ?? []).entries()) {
      const { rest } = await receiptParts(index);
      const proven = await verifyEntry(leaf, rest, trust);
      expect(proven).toMatchObject({ verdict: 'proven', index, event: { id: events[index]?.id } });
    }
    expect(await verifyEntry(leaves?.[1] ?? Buffer.of(), (await receiptParts(2)).rest, trust)).toMatchObject({
      verdict: 'refused',
    });
  });

  it('is not found in what is no entry bundle', () => {
    const bundle = encodeBundle(events.map(leafOf));
    expect(leavesIn(bundle.subarray(0, -1))).toBeUndefined();
    expect(leavesIn(Buffer.of(0, 5, 1))).toBeUndefined();
    expect(leavesIn(Buffer.of(1))).toBeUndefined();
    expect(leavesIn(Buffer.of())).toEqual([]);
  });
});

describe('a file in the console', () => {
  const listProof = async (): Promise<string> => {
    const nothing = (): undefined => undefined;
    const lists = new ListProofs(log.log, log.tree, tree, () => new Date(), nothing);
    const asked = { owner: 'bob', after: undefined, limit: 10, mayShowOthers: false };
    return (await lists.of(asked, AbortSignal.timeout(5_000))) ?? '';
  };

  it('is known by its content, packed or not, and checked', async () => {
    const { leaf, rest } = await receiptParts(3);
    const { note } = await tree.checkpoint();
    const files: [string, string][] = [
      ['bundle', await log.bundle()],
      ['bundle', await log.bundle({ owner: 'bob' })],
      ['list', await listProof()],
      ['receipt', receiptText(leaf, rest)],
      ['receipt', tlogProofText(leaf, rest)],
      ['checkpoint', note],
    ];
    for (const [kind, text] of files)
      for (const content of [text, gzipSync(text)])
        expect(await checkFile(fileOf(content), trust)).toMatchObject({
          kind,
          result: { verdict: 'proven' },
        });
    expect(await checkFile(fileOf(await log.bundle({ owner: 'bob' })), trust)).toMatchObject({
      result: { owner: 'bob', isStateProven: true },
    });
  });

  it('that an earlier version wrote is proven', async () => {
    const known = trustOf({ key: golden('plants.vkey').toString().trim() });
    for (const [name, content] of [
      ['bundle.ndjson.gz', { events: 106, from: 0, owner: undefined }],
      ['bundle-bob.ndjson.gz', { owner: 'bob' }],
      ['bundle-recorded.ndjson.gz', { owner: undefined }],
    ] as const)
      expect([name, await checkFile(fileOf(golden(name)), known)]).toMatchObject([
        name,
        { kind: 'bundle', result: { verdict: 'proven', ...content } },
      ]);
  });

  it('is refused where its packing is damaged or cut off', async () => {
    const packed = gzipSync(await log.bundle());
    for (const content of [packed.subarray(0, 900), packed.subarray(0, -4), packed.fill(0x55, 500, 520)])
      expect(await checkFile(fileOf(content), trust)).toMatchObject({
        result: {
          verdict: 'refused',
          reason: expect.stringMatching(/^its compression is damaged or cut off \(/) as unknown,
        },
      });
    const receipt = gzipSync(golden('receipt-1.json')).subarray(0, -6);
    expect(await checkFile(fileOf(receipt), trust)).toMatchObject({ kind: 'unknown' });
  });

  it('is told apart from what is none, and says what to do', async () => {
    const zstd = Buffer.from('28b52ffd', 'hex');
    for (const [content, reason] of [
      [zstd, /unpack it with zstd -d/],
      ['', /no bundle, no receipt, no proof of a list and no checkpoint/],
      ['hello', /no bundle, no receipt/],
      [Buffer.of(0xff, 0xfe), /not UTF-8/],
      ['{"format":"plants-list","version":3}', /this is not a list proof of version 1 or 2/],
      ['{"before":[],"checkpoint":"x"', /line is cut off/],
    ] as const)
      expect(await checkFile(fileOf(content), trust)).toMatchObject({
        result: { verdict: 'refused', reason: expect.stringMatching(reason) as unknown },
      });
  });

  it('tells how far it is, and is given up where the caller throws', async () => {
    const told: [number, number | undefined][] = [];
    const bundle = gunzipSync(golden('bundle.ndjson.gz'));
    const onProgress = (events: number, total: number | undefined): void => {
      told.push([events, total]);
    };
    await checkFile(fileOf(bundle), { ...trust, keys: [], onProgress });
    expect(told.at(-1)).toEqual([106, 106]);
    const stop = new Error('stopped');
    const stopped = checkFile(fileOf(bundle), {
      ...trust,
      keys: [],
      onProgress: () => {
        throw stop;
      },
    });
    await expect(stopped).rejects.toBe(stop);
  });
});

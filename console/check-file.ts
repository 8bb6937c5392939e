import {
  type BundleOptions,
  type BundleRefusal,
  type ProvenBundle,
  verifyBundle,
} from '../src/transparency/bundle.js';
import { textOf } from '../src/transparency/bytes.js';
import { isObject, jsonIn } from '../src/transparency/json.js';
import { LIST_PROOF_BEGINS, type ProvenList, verifyListProof } from '../src/transparency/list-proof.js';
import { type ProvenEntry, TLOG_PROOF_BEGINS, verifyReceipt } from '../src/transparency/receipt.js';
import { type Refusal, Refused } from '../src/transparency/refused.js';
import { type Signed, verifyCheckpoint } from '../src/transparency/signed.js';

/** The kind of a file, with the result of its check. */
export type CheckedFile =
  | { readonly kind: 'bundle'; readonly result: ProvenBundle | BundleRefusal }
  | { readonly kind: 'list'; readonly result: ProvenList | Refusal }
  | { readonly kind: 'receipt'; readonly result: ProvenEntry | Refusal }
  | { readonly kind: 'checkpoint'; readonly result: Signed | Refusal; readonly note: string }
  | { readonly kind: 'unknown'; readonly result: Refusal };

/** More than a list proof of 1,000 plants has, in bytes; receipts and checkpoints are smaller. */
const MAX_BYTES = 67_108_864;

/** The first bytes of a file, which tell its kind. */
const HEAD_BYTES = 64;

/** The first line of a bundle is canonical JSON. */
const BUNDLE_BEGINS = /^\{"(?:before":\[|checkpoint":")/;

/**
 * Checks a file that an auditor has kept, whatever it is: a bundle, the proof of a list, a receipt, or a checkpoint, packed
 * by gzip or not. Nothing leaves the browser. Rejects where the file cannot be read.
 */
export const checkFile = async (file: Blob, options: BundleOptions): Promise<CheckedFile> => {
  const first = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  if (first[0] === 0x28 && first[1] === 0xb5 && first[2] === 0x2f && first[3] === 0xfd)
    return unknown('it is compressed by zstd, which browsers cannot read: unpack it with zstd -d');
  const isPacked = first[0] === 0x1f && first[1] === 0x8b;
  try {
    return await checkUnpacked(() => (isPacked ? unpacked(file) : file.stream()), options);
  } catch (error) {
    if (error instanceof Refused) return unknown(error.message);
    throw error;
  }
};

/** Unpacks a file. Its reader gets Refused for damaged data, and a DOMException where the file cannot be read. */
const unpacked = (file: Blob): ReadableStream<Uint8Array> => {
  const reader = file.stream().pipeThrough(new DecompressionStream('gzip')).getReader();
  return new ReadableStream({
    pull: async (controller) => {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        if (error instanceof DOMException) throw error;
        throw new Refused(`its compression is damaged or cut off (${String(error)})`);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
};

const checkUnpacked = async (
  read: () => ReadableStream<Uint8Array>,
  options: BundleOptions,
): Promise<CheckedFile> => {
  const begins = new TextDecoder().decode(await bytesIn(read(), HEAD_BYTES));
  if (BUNDLE_BEGINS.test(begins)) return { kind: 'bundle', result: await verifyBundle(read(), options) };
  const bytes = await bytesIn(read(), MAX_BYTES + 1);
  if (bytes.length > MAX_BYTES)
    return unknown('it is longer than any receipt, checkpoint or proof of a list');
  const text = textOf(bytes);
  if (text === undefined) return unknown('this is not UTF-8');
  if (begins.startsWith(LIST_PROOF_BEGINS))
    return { kind: 'list', result: await verifyListProof(text, options) };
  if (begins.startsWith(TLOG_PROOF_BEGINS) || isObject(jsonIn(text)))
    return { kind: 'receipt', result: await verifyReceipt(text, options) };
  if (text.includes('\n\n'))
    return { kind: 'checkpoint', result: await verifyCheckpoint(text, options), note: text };
  return unknown('it is no bundle, no receipt, no proof of a list and no checkpoint');
};

const unknown = (reason: string): CheckedFile => ({
  kind: 'unknown',
  result: { verdict: 'refused', reason },
});

/** The first bytes of a stream, at most so many; the rest is not read. */
const bytesIn = async (stream: ReadableStream<Uint8Array>, most: number): Promise<Uint8Array> => {
  const reader = stream.getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (let part = await reader.read(); !part.done && length < most; part = await reader.read()) {
    parts.push(part.value.slice(0, most - length));
    length += part.value.length;
  }
  await reader.cancel();
  return new Uint8Array(await new Blob(parts).arrayBuffer());
};

import { type BundleRefusal, type ProvenBundle, verifyBundle } from '../../src/transparency/bundle.js';
import { parseVerifierKey, type VerifierKey } from '../../src/transparency/note.js';
import { type Refusal } from '../../src/transparency/refused.js';
import { type Trust } from '../../src/transparency/signed.js';
import { type PythonRun } from './python-check.js';

/** Trust in these keys of logs, and no witnesses. */
export const trusting = (...keys: readonly VerifierKey[]): Trust => ({ keys, witnesses: [] });

/** The keys of a run of docs/check.py, as the library takes them. */
export const trustOf = ({
  key,
  witnesses = [],
  required,
}: Pick<PythonRun, 'key' | 'witnesses' | 'required'>): Trust => ({
  keys: [key ?? []].flat().map((one) => parseVerifierKey(one)),
  witnesses: witnesses.map((one) => parseVerifierKey(one, 'cosignature')),
  required,
});

/** Rejects with the reason where it is refused. */
export const proven = async <Proven extends object>(verdict: Promise<Proven | Refusal>): Promise<Proven> => {
  const result = await verdict;
  if ('reason' in result) throw new Error(result.reason);
  return result;
};

/** Bytes as a page gets those of a file, in pieces of no particular size. */
export const streamOf = (bytes: Uint8Array, size = 10_000): ReadableStream<Uint8Array> => {
  let at = 0;
  return new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (at >= bytes.length) controller.close();
      else controller.enqueue(bytes.subarray(at, (at += size)));
    },
  });
};

/** Verifies a bundle as the console reads it. */
export const verifiedAsStream = (run: PythonRun): Promise<ProvenBundle | BundleRefusal> =>
  verifyBundle(streamOf(run.bundle), { ...trustOf(run), against: run.against });

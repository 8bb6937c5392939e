import { checkBundle, type BundleRefusal, type ProvenBundle } from '../../console/proofs/bundle.js';
import { type Trust } from '../../console/proofs/checkpoint.js';
import { parseVerifierKey } from '../../console/proofs/note.js';
import { type PythonRun } from './python-check.js';

/** The keys of a run as the console's checkers take them. */
export const trustOf = async ({
  key,
  witnesses = [],
  required,
}: Pick<PythonRun, 'key' | 'witnesses' | 'required'>): Promise<Trust> => ({
  keys: await Promise.all([key ?? []].flat().map((one) => parseVerifierKey(one))),
  witnesses: await Promise.all(witnesses.map((one) => parseVerifierKey(one, 'witness'))),
  required,
});

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

/** What the console's checker says to a bundle. */
export const checkByConsole = async (run: PythonRun): Promise<ProvenBundle | BundleRefusal> =>
  checkBundle(streamOf(run.bundle), { ...(await trustOf(run)), against: run.against });

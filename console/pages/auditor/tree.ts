/** The tree of the service: checkpoints, proofs and leaves. Nothing of it is believed before it is verified. */
import { addressOf, json, send } from '../../api.js';
import { problemOf, Unreachable } from '../../problem.js';
import { type EntryProof } from '../../../src/transparency/receipt.js';
import { leavesIn } from '../../../src/transparency/event.js';

/** Events in a full entry bundle. */
export const BUNDLE_EVENTS = 256;

/** Reads a text without a token. */
const publicText = async (path: string, query: Readonly<Record<string, string>> = {}): Promise<string> => {
  let response: Response;
  try {
    response = await fetch(addressOf(path, query), {
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
  } catch {
    throw new Unreachable();
  }
  if (!response.ok) throw await problemOf(response);
  return response.text();
};

/** The last checkpoint: a signed note, with its cosignatures. */
export const lastCheckpoint = (): Promise<string> => publicText('log/checkpoint');

/** The last checkpoint with the root of its state: a signed note, without cosignatures. */
export const lastState = (): Promise<string> => publicText('log/state');

/** The size in a checkpoint, by any signer; undefined for what is none. */
export const sizeOf = (note: string): number | undefined => {
  const [, digits = ''] = note.split('\n');
  return /^\d{1,15}$/.test(digits) ? Number(digits) : undefined;
};

/** The hashes that prove that the tree of `from` events is the beginning of that of `to`: none for 0, or the same. */
export const consistencyProof = async (from: number, to: number): Promise<readonly string[]> => {
  if (from === 0 || from >= to) return [];
  const text = await publicText('log/proof/consistency', { from: String(from), to: String(to) });
  return (JSON.parse(text) as { readonly proof: readonly string[] }).proof;
};

/** Proof that the event with an index is in the log of this checkpoint. */
export const inclusionOf = async (
  index: number,
  checkpoint: string,
  signal: AbortSignal,
): Promise<EntryProof> => {
  const query = { index, size: sizeOf(checkpoint) };
  const { proof } = await json<{ readonly proof: readonly string[] }>('log/proof/inclusion', {
    query,
    signal,
  });
  return { index, proof, checkpoint };
};

/** The index of the event at a position. */
export const indexAt = async (position: string): Promise<number> =>
  (await json<{ readonly index: number }>('log/proof/inclusion', { query: { position } })).index;

/** The leaves of an entry bundle, as far as a log of `size` events fills it. */
export const leavesOf = async (
  bundle: number,
  size: number,
  signal: AbortSignal,
): Promise<readonly Uint8Array[]> => {
  const width = Math.min(BUNDLE_EVENTS, size - bundle * BUNDLE_EVENTS);
  const digits = String(bundle);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/\d{3}/g) ?? [];
  const place = groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group)).join('/');
  const response = await send(`log/tile/entries/${place}${width === BUNDLE_EVENTS ? '' : `.p/${width}`}`, {
    signal,
  });
  const leaves = leavesIn(new Uint8Array(await response.arrayBuffer()));
  if (leaves?.length !== width)
    throw new Error('The service has sent something else than the events of the log.');
  return leaves;
};

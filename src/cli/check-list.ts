import { needCosignatures, type WitnessDemand } from '../audit/cosignature.js';
import { keyName, type VerifierKey, NoteRefused } from '../audit/note.js';
import { ProofRefused } from '../audit/merkle.js';
import {
  LIST_PROOF_BEGINS,
  type ListedPlant,
  type ProvenList,
  verifyListProof,
} from '../audit/state-tree/list-proof.js';
import { bytesIn, CheckFailed } from './check-files.js';
import { print, printable, quantity, table } from './terminal.js';

/** More than a list proof of 1,000 plants has, in bytes. */
const MAX_BYTES = 67_108_864;

/** Plants that are shown to a person. */
const SHOWN_PLANTS = 20;

/** Tells whether a file is the proof of a list. Throws as `bytesIn`. */
export const isListProof = async (file: string): Promise<boolean> => {
  let begins = Buffer.alloc(0);
  for await (const bytes of bytesIn(file)) {
    begins = Buffer.concat([begins, bytes]);
    if (begins.length >= LIST_PROOF_BEGINS.length) break;
  }
  return begins.subarray(0, LIST_PROOF_BEGINS.length).toString('latin1') === LIST_PROOF_BEGINS;
};

/** The options of `plants check` for a list proof. */
export interface ListQuestion {
  readonly file: string;
  /** The log's keys. Without any the signer is not verified. */
  readonly keys: readonly VerifierKey[];
  /** The witnesses that must have cosigned its checkpoint; none, without it. */
  readonly demand: WitnessDemand | undefined;
  /** The owner whose list it has to be; anybody's, without it. */
  readonly owner: string | undefined;
}

/** Checks the proof of a list, and prints the list. Returns whether it passed. Throws CheckFailed as `bytesIn`. */
export const checkList = async (
  { json }: { readonly json: boolean },
  { file, keys, demand, owner }: ListQuestion,
): Promise<boolean> => {
  try {
    const text = await textIn(file);
    const list = verifyListProof(text, keys);
    if (demand) needCosignatures((JSON.parse(text) as { checkpoint: string }).checkpoint, demand);
    if (owner !== undefined && list.owner !== owner)
      throw new ProofRefused(`it is of ${JSON.stringify(list.owner)}, not of ${JSON.stringify(owner)}`);
    print({ json }, asJson(list), asText(list));
    return true;
  } catch (error) {
    if (!(error instanceof ProofRefused) && !(error instanceof NoteRefused)) throw error;
    const reason = error instanceof NoteRefused ? `its checkpoint: ${error.message}` : error.message;
    print({ json }, { verdict: 'refused', reason }, printable(`refused: ${reason}`));
    return false;
  }
};

const textIn = async (file: string): Promise<string> => {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of bytesIn(file)) {
    parts.push(part);
    length += part.length;
    if (length > MAX_BYTES) throw new CheckFailed(`${file} is longer than any list proof`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(parts));
  } catch {
    throw new ProofRefused('this is not UTF-8');
  }
};

const asJson = ({ checkpoint, signedBy, owner, after, isLast, plants }: ProvenList): unknown => ({
  verdict: signedBy ? 'proven' : 'consistent',
  signedBy: signedBy ? keyName(signedBy) : null,
  origin: checkpoint.origin,
  size: checkpoint.size,
  owner,
  after: after ?? null,
  last: isLast,
  plants: plants.map(({ event }) => event.data),
});

const asText = ({ checkpoint, signedBy, owner, after, isLast, plants }: ProvenList): string => {
  const { origin, size } = checkpoint;
  const which = after === undefined ? '' : ` after the id ${after}`;
  const whole = isLast ? 'and there are no others' : 'none is left out between them, and more follow';
  const list = plants.length === 0 ? 'there are none' : `these are the first ${plants.length}, ${whole}`;
  const what = `of the plants of ${JSON.stringify(owner)}${which}, after ${quantity(size, 'event')} of ${origin}, ${list}`;
  const lines = [
    signedBy ? `proven: ${what}; signed by ${keyName(signedBy)}` : `consistent: ${what}`,
    ...(signedBy
      ? []
      : ["The signature was NOT checked: without the log's key (--key) anybody may have made this file."]),
  ];
  const rows = plants.slice(0, SHOWN_PLANTS).map(rowOf);
  const more = plants.length - rows.length;
  return [
    ...lines.map(printable),
    ...(rows.length === 0 ? [] : [table(rows)]),
    ...(more > 0 ? [`  and ${more} more (--json shows all)`] : []),
  ].join('\n');
};

const rowOf = ({ id, event }: ListedPlant): string[] => {
  const { name, tag } = Object(event.data) as Record<string, unknown>;
  const shown = (value: unknown) => (typeof value === 'string' ? printable(value) : '');
  return [`  ${id}`, shown(name), shown(tag)];
};

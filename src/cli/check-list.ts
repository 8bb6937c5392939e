import { textOf } from '../transparency/bytes.js';
import {
  LIST_PROOF_BEGINS,
  type ListedPlant,
  type ProvenList,
  verifyListProof,
} from '../transparency/list-proof.js';
import { type Refusal } from '../transparency/refused.js';
import { type Trust } from '../transparency/signed.js';
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
  readonly trust: Trust;
  /** The owner whose list it has to be; anybody's, without it. */
  readonly owner: string | undefined;
}

/** Checks the proof of a list, and prints the list. Returns whether it passed. Throws CheckFailed as `bytesIn`. */
export const checkList = async (
  { json }: { readonly json: boolean },
  { file, trust, owner }: ListQuestion,
): Promise<boolean> => {
  const result = await verdictOn(await textIn(file), trust, owner);
  if (result.verdict === 'refused')
    print({ json }, { verdict: 'refused', reason: result.reason }, printable(`refused: ${result.reason}`));
  else print({ json }, asJson(result), asText(result));
  return result.verdict !== 'refused';
};

const verdictOn = async (
  text: string | undefined,
  trust: Trust,
  owner: string | undefined,
): Promise<ProvenList | Refusal> => {
  if (text === undefined) return { verdict: 'refused', reason: 'this is not UTF-8' };
  const result = await verifyListProof(text, trust);
  if (result.verdict === 'refused' || owner === undefined || result.owner === owner) return result;
  const reason = `the list is of ${JSON.stringify(result.owner)}, not of ${JSON.stringify(owner)}`;
  return { verdict: 'refused', reason };
};

/** Undefined for what is no UTF-8. */
const textIn = async (file: string): Promise<string | undefined> => {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of bytesIn(file)) {
    parts.push(part);
    length += part.length;
    if (length > MAX_BYTES) throw new CheckFailed(`${file} is longer than any list proof`);
  }
  return textOf(Buffer.concat(parts));
};

const asJson = ({ verdict, signedBy, origin, size, owner, after, isLast, plants }: ProvenList): unknown => ({
  verdict,
  signedBy: signedBy ?? null,
  origin,
  size,
  owner,
  after: after ?? null,
  last: isLast,
  plants: plants.map(({ event }) => event.data),
});

const asText = ({ signedBy, origin, size, owner, after, isLast, plants }: ProvenList): string => {
  const which = after === undefined ? '' : ` after the id ${after}`;
  const whole = isLast ? 'and there are no others' : 'none is left out between them, and more follow';
  const list = plants.length === 0 ? 'there are none' : `these are the first ${plants.length}, ${whole}`;
  const what = `of the plants of ${JSON.stringify(owner)}${which}, after ${quantity(size, 'event')} of ${origin}, ${list}`;
  const lines = [
    signedBy ? `proven: ${what}; signed by ${signedBy}` : `consistent: ${what}`,
    ...(signedBy
      ? []
      : ["The signature was NOT checked: without the log's key (--key) anyone may have made this file."]),
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

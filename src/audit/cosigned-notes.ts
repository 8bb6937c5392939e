import { parseCheckpoint } from '../transparency/checkpoint.js';
import {
  type Cosignature,
  cosignaturesOf,
  lackOf,
  leastOf,
  type Quorum,
  readyFor,
} from '../transparency/cosignature.js';
import {
  formatSignature,
  keyName,
  NoteRefused,
  parseNote,
  type VerifierKey,
  verifyNote,
} from '../transparency/note.js';
import { orElse } from '../transparency/refused.js';
import { type TreeStore } from './tree-store.js';

/** A checkpoint with the cosignatures of known witnesses. */
export interface CosignedCheckpoint {
  readonly size: number;
  /** Signed by the log and by `by` alone. */
  readonly note: string;
  readonly by: readonly Cosignature[];
}

/**
 * Checkpoints that are kept without enough cosignatures: a slow witness cosigns one that is some seconds old, and one is
 * signed each second at most.
 */
const MAX_NOTES = 16;

/**
 * The checkpoints that witnesses have cosigned, in the store of the tree: the last ones, from the last with enough
 * cosignatures on. What is lost of them is asked for again. All methods throw what the store throws.
 */
export class CosignedNotes {
  /** What was verified of each stored line: one cosignature, or none. */
  #verified: ReadonlyMap<string, readonly CosignedCheckpoint[]> = new Map();

  constructor(
    private readonly store: Pick<TreeStore, 'cosignatures' | 'cosign'>,
    /** The keys of the witnesses. */
    private readonly keys: readonly VerifierKey[],
    /** How many of them, or which, are enough. */
    private readonly quorum: number | Quorum,
    /** The keys of the log. */
    private readonly logKeys: readonly VerifierKey[],
    /** True for the name and id of the key of a witness that does not cosign at present. */
    private readonly isFailing: (witness: string) => boolean = () => false,
  ) {}

  /** From the last with enough cosignatures on, in order of size. What cannot be read or verified is left out. */
  async checkpoints(): Promise<readonly CosignedCheckpoint[]> {
    await readyFor(this.keys);
    const stored = await this.store.cosignatures();
    const before = this.#verified;
    this.#verified = new Map(
      stored
        .map(({ note, line }) => note + line)
        .map((note) => [note, before.get(note) ?? this.#verify(note)]),
    );
    const found = new Map<number, CosignedCheckpoint>();
    for (const { size, note, by } of [...this.#verified.values()].flat()) {
      const known = found.get(size) ?? { size, note, by: [] };
      const added = by.filter(({ key }) => !known.by.some((other) => other.key === key));
      found.set(size, { size, note: withLines(known.note, added), by: [...known.by, ...added] });
    }
    return [...found.values()];
  }

  /** The last with enough cosignatures. */
  async witnessed(): Promise<CosignedCheckpoint | undefined> {
    return (await this.checkpoints()).findLast(({ by }) => this.areEnough(by));
  }

  /** The least number of witnesses that are enough. */
  get required(): number {
    return leastOf(this.quorum);
  }

  /** True if these witnesses are enough. */
  areEnough(by: readonly Pick<Cosignature, 'key'>[]): boolean {
    const keys = by.map(({ key }) => key);
    return lackOf({ witnesses: this.keys, required: this.quorum }, keys) === undefined;
  }

  /** True if enough witnesses answer, so that waiting for them makes sense. */
  get expected(): boolean {
    return this.areEnough(this.keys.filter((key) => !this.isFailing(keyName(key))).map((key) => ({ key })));
  }

  /** A signed note with the cosignatures that are known of it. */
  async cosigned(note: string): Promise<CosignedCheckpoint> {
    const { text } = parseNote(note);
    const by = (await this.checkpoints()).find((one) => parseNote(one.note).text === text)?.by ?? [];
    return { size: parseCheckpoint(text).size, note: withLines(note, by), by };
  }

  /** Adds a verified cosignature of a stored checkpoint, unless a later one has enough of them. */
  async add(size: number, cosignature: Cosignature): Promise<void> {
    const all = await this.checkpoints();
    const last = all.findLast(({ by }) => this.areEnough(by))?.size ?? -1;
    if (size < last) return;
    const by = all.find((one) => one.size === size)?.by ?? [];
    const enough = this.areEnough([...by, cosignature]) ? size : last;
    const others = all.map((one) => one.size).filter((one) => one !== size);
    const isOld = (one: number, index: number): boolean => one > enough && index <= others.length - MAX_NOTES;
    const forgotten = others.filter((one, index) => one < enough || isOld(one, index));
    await this.store.cosign(size, cosignature.line, forgotten);
  }

  /** Gives the note as the log alone has signed it. */
  #verify(note: string): readonly CosignedCheckpoint[] {
    const verify = (): CosignedCheckpoint[] => {
      const by = cosignaturesOf(note, this.keys);
      const { text, signatures } = verifyNote(note, this.logKeys);
      const signed = `${text}\n${signatures.map(formatSignature).join('')}`;
      return [{ size: parseCheckpoint(text).size, note: signed, by }];
    };
    return orElse(verify, [NoteRefused], () => []);
  }
}

const withLines = (note: string, by: readonly Cosignature[]): string =>
  note + by.map(({ line }) => line).join('');

/**
 * A signed note with the cosignatures that are kept of it, whoever the witnesses are: whoever checks them has their keys.
 * What is no line of a note is left out. Throws what the store throws.
 */
export const withCosignatures = async (
  store: Pick<TreeStore, 'cosignatures'>,
  note: string,
): Promise<string> => {
  const isLine = (line: string): boolean =>
    orElse(
      () => parseNote(note + line).signatures.length > 0,
      [NoteRefused],
      () => false,
    );
  const stored = await store.cosignatures();
  const lines = stored.filter((one) => one.note === note).map(({ line }) => line);
  return note + lines.filter(isLine).join('');
};

import { readFileSync } from 'node:fs';
import { replaceFile } from '../runtime/new-file.js';
import { parseCheckpoint } from '../transparency/checkpoint.js';
import {
  type Cosignature,
  cosignaturesOf,
  lackOf,
  leastOf,
  type Quorum,
} from '../transparency/cosignature.js';
import {
  formatSignature,
  NoteRefused,
  parseNote,
  type VerifierKey,
  verifyNote,
} from '../transparency/note.js';
import { orElse } from '../transparency/refused.js';

/** A checkpoint with the cosignatures of known witnesses. */
export interface CosignedCheckpoint {
  readonly size: number;
  /** Signed by the log and by `by` alone. */
  readonly note: string;
  readonly by: readonly Cosignature[];
}

/** A file that is read, and replaced, as a whole. */
export interface TextFile {
  /** Empty where the file cannot be read. */
  readonly read: () => string;
  /** Throws an error of the file system. */
  readonly replace: (text: string) => void;
}

export const textFile = (path: string): TextFile => ({
  read: () => textOf(path),
  replace: (text) => {
    replaceFile(path, text);
  },
});

/** Content of the file. */
interface Stored {
  /** Cosigned notes. */
  readonly notes: readonly string[];
  /** True if enough witnesses answer, so that waiting for them makes sense. */
  readonly expected: boolean;
}

interface Verified {
  readonly checkpoints: readonly CosignedCheckpoint[];
  readonly expected: boolean;
}

/**
 * Checkpoints that are kept without enough cosignatures: a slow witness cosigns one that is some seconds old, and one is
 * signed each second at most.
 */
const MAX_NOTES = 16;

/**
 * The checkpoints that witnesses have cosigned, in a file that all processes of a DATA_DIR share: the last ones, from the
 * last with enough cosignatures on. What is lost of it is asked for again.
 */
export class CosignedNotes {
  #read = '';
  #stored: Verified = NOTHING;

  constructor(
    private readonly file: TextFile,
    /** The keys of the witnesses. */
    private readonly keys: readonly VerifierKey[],
    /** How many of them, or which, are enough. */
    private readonly quorum: number | Quorum,
    /** The keys of the log. */
    private readonly logKeys: readonly VerifierKey[],
    /** Runs work that no other process with this file does meanwhile: each change is made to what is there then. */
    private readonly exclusively: <T>(work: () => T) => T,
  ) {}

  /** From the last with enough cosignatures on, in order of size. */
  checkpoints(): readonly CosignedCheckpoint[] {
    return this.#refreshed().checkpoints;
  }

  /** The last with enough cosignatures. */
  witnessed(): CosignedCheckpoint | undefined {
    return this.checkpoints().findLast(({ by }) => this.areEnough(by));
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
    return this.#refreshed().expected;
  }

  /** A signed note with the cosignatures that are known of it. */
  cosigned(note: string): CosignedCheckpoint {
    const { text } = parseNote(note);
    const by = this.checkpoints().find((one) => parseNote(one.note).text === text)?.by ?? [];
    return { size: parseCheckpoint(text).size, note: note + by.map(({ line }) => line).join(''), by };
  }

  /** Adds a verified cosignature of a signed note. Throws an error of the file system, or of the lock. */
  add(note: string, cosignature: Cosignature): void {
    this.exclusively(() => {
      this.#add(note, cosignature);
    });
  }

  #add(note: string, cosignature: Cosignature): void {
    const known = this.cosigned(note);
    if (known.by.some(({ key }) => key === cosignature.key)) return;
    const added = { ...known, note: known.note + cosignature.line, by: [...known.by, cosignature] };
    const all = [...this.checkpoints().filter(({ size }) => size !== added.size), added]
      .sort((one, other) => one.size - other.size)
      .slice(-MAX_NOTES);
    const enough = all.findLastIndex(({ by }) => this.areEnough(by));
    // The last with enough stays, however many came after it.
    const before = this.witnessed();
    const kept = enough >= 0 ? all.slice(enough) : [...(before ? [before] : []), ...all];
    this.#write(kept, this.expected);
  }

  /** Stores whether enough witnesses answer. Throws as `add`. */
  expect(expected: boolean): void {
    if (expected === this.expected) return;
    this.exclusively(() => {
      this.#write(this.checkpoints(), expected);
    });
  }

  #write(checkpoints: readonly CosignedCheckpoint[], expected: boolean): void {
    const stored: Stored = { notes: checkpoints.map(({ note }) => note), expected };
    this.file.replace(`${JSON.stringify(stored)}\n`);
  }

  /** The file as it is now: another process may have written it. */
  #refreshed(): Verified {
    const text = this.file.read();
    if (text !== this.#read) {
      this.#read = text;
      this.#stored = this.#parsed(text);
    }
    return this.#stored;
  }

  /** Leaves out what cannot be read or verified. */
  #parsed(text: string): Verified {
    try {
      const { notes, expected } = JSON.parse(text) as Stored;
      return { checkpoints: notes.flatMap((note) => this.#verified(note)), expected };
    } catch {
      return NOTHING;
    }
  }

  #verified(note: string): CosignedCheckpoint[] {
    const verify = (): CosignedCheckpoint[] => {
      const by = cosignaturesOf(note, this.keys);
      const { text, signatures } = verifyNote(note, this.logKeys);
      const lines = [...signatures.map(formatSignature), ...by.map(({ line }) => line)];
      return [{ size: parseCheckpoint(text).size, note: `${text}\n${lines.join('')}`, by }];
    };
    return orElse(verify, [NoteRefused], () => []);
  }
}

const NOTHING: Verified = { checkpoints: [], expected: true };

const textOf = (file: string): string => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};

/**
 * The lines of cosignatures that this file holds of a note, whoever the witnesses are: whoever checks them has their
 * keys. None where the file cannot be read.
 */
export const keptCosignatures = (file: string, note: string): string => {
  try {
    const { notes } = JSON.parse(textOf(file)) as Stored;
    const kept = notes.find((one) => one.startsWith(note)) ?? note;
    parseNote(kept);
    return kept.slice(note.length);
  } catch {
    return '';
  }
};

import { fromCharacters, isSame, textOf } from './bytes.js';
import { type Quorum } from './cosignature.js';
import { keyName, NoteRefused, parseVerifierKey, type SignatureType, type VerifierKey } from './note.js';
import { quoted } from './refused.js';
import { type Trust } from './signed.js';

/** A key of a policy, and where its owner is, in the form that the policy's reader expects. */
export interface PolicyKey {
  readonly key: VerifierKey;
  readonly url: string | undefined;
}

/** Whom to trust: a checkpoint that one of the logs has signed, and a quorum of the witnesses has cosigned. */
export interface Policy {
  readonly logs: readonly PolicyKey[];
  readonly witnesses: readonly PolicyKey[];
  /** Its threshold is 0 where no cosignature is needed. */
  readonly quorum: Quorum;
}

const MAX_BYTES = 100_000;

/** Witnesses and groups: groups may stand in groups so deep. */
const MAX_NAMES = 1_000;

/** The quorum of a policy that needs no cosignatures; no witness or group has this name. */
const NOBODY = 'none';

/**
 * Reads a policy file: C2SP tlog-policy (https://c2sp.org/tlog-policy). Keys are Ed25519. Throws NoteRefused, which names
 * the line.
 */
export const parsePolicy = (file: Uint8Array): Policy => {
  if (file.length > MAX_BYTES) throw new NoteRefused(`a policy has at most ${MAX_BYTES} bytes`);
  const reader = new PolicyReader();
  // Bytes as characters: names are compared byte by byte, in any encoding.
  const lines = Array.from(file, (byte) => String.fromCharCode(byte))
    .join('')
    .split('\n');
  for (const [at, line] of lines.entries())
    try {
      reader.take(line);
    } catch (error) {
      if (error instanceof NoteRefused) throw new NoteRefused(error.message, at + 1);
      throw error;
    }
  return reader.policy();
};

/** The trust in a policy, and in further keys of logs. */
export const trustInPolicy = ({ logs, witnesses, quorum }: Policy, keys: readonly VerifierKey[]): Trust => ({
  keys: [...keys, ...logs.map(({ key }) => key)],
  witnesses: witnesses.map(({ key }) => key),
  required: quorum,
});

class PolicyReader {
  readonly #logs: PolicyKey[] = [];
  readonly #witnesses: PolicyKey[] = [];
  /** Witnesses and groups by their names; those that are members of a group are taken out. */
  readonly #defined = new Map<string, string | Quorum>();
  readonly #free = new Set<string>();
  #quorum: Quorum | undefined;

  take(line: string): void {
    if (/[^\t\x20-\x7e\x80-\xff]/.test(line)) throw new NoteRefused('a control character other than a tab');
    const [word, ...words] = line.split(/[ \t]+/).filter((one) => one !== '');
    if (word === undefined || word.startsWith('#')) return;
    if (word === 'log') this.#addKey(this.#logs, words, 'ed25519');
    else if (word === 'witness') {
      const [name = '', ...rest] = words;
      this.#define(name, keyName(this.#addKey(this.#witnesses, rest, 'cosignature')));
    } else if (word === 'group') this.#addGroup(words);
    else if (word === 'quorum') this.#setQuorum(words);
    else throw new NoteRefused(`${quoted(shown(word))} is none of log, witness, group and quorum`);
  }

  policy(): Policy {
    if (!this.#quorum) throw new NoteRefused('a policy has a quorum line');
    return { logs: this.#logs, witnesses: this.#witnesses, quorum: this.#quorum };
  }

  #addKey(to: PolicyKey[], [vkey = '', url, ...more]: readonly string[], type: SignatureType): VerifierKey {
    if (more.length > 0) throw new NoteRefused('more words than a key and a URL');
    const key = parseVerifierKey(shown(vkey), type);
    const isOne = ({ key: known }: PolicyKey): boolean =>
      isSame(known.publicKey, key.publicKey) || keyName(known) === keyName(key);
    if (to.some(isOne)) throw new NoteRefused(`the key of ${quoted(key.name)} stands here twice`);
    to.push({ key, url: url === undefined ? undefined : shown(url) });
    return key;
  }

  #define(name: string, what: string | Quorum): void {
    if (name === NOBODY || this.#defined.has(name))
      throw new NoteRefused(`the name ${quoted(shown(name))} is taken`);
    if (this.#defined.size === MAX_NAMES)
      throw new NoteRefused(`more than ${MAX_NAMES} witnesses and groups`);
    this.#defined.set(name, what);
    this.#free.add(name);
  }

  #addGroup([name = '', least = '', ...names]: readonly string[]): void {
    const members = names.map((member) => {
      const defined = this.#named(member);
      if (!this.#free.delete(member))
        throw new NoteRefused(`${quoted(shown(member))} is a member of a group already`);
      return defined;
    });
    const threshold = least === 'any' ? 1 : least === 'all' ? members.length : Number(least);
    if (!/^(any|all|[1-9]\d{0,5})$/.test(least) || threshold > members.length || members.length === 0)
      throw new NoteRefused('a group has a name, then all, any or a number of its members, then members');
    this.#define(name, { threshold, members });
  }

  #setQuorum([name = '', ...more]: readonly string[]): void {
    if (this.#quorum || more.length > 0) throw new NoteRefused('a policy has one quorum line, with one name');
    if (name === NOBODY) this.#quorum = { threshold: 0, members: [] };
    else {
      const defined = this.#named(name);
      this.#quorum = typeof defined === 'string' ? { threshold: 1, members: [defined] } : defined;
    }
  }

  /** A witness or group that a line before has defined. */
  #named(name: string): string | Quorum {
    const defined = this.#defined.get(name);
    if (defined === undefined) throw new NoteRefused(`no line before defines ${quoted(shown(name))}`);
    return defined;
  }
}

/** Bytes as the text that they are in UTF-8; as they stand where they are none. */
const shown = (characters: string): string => textOf(fromCharacters(characters)) ?? characters;

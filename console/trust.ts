/** The keys that this browser trusts: they are the reader's own, and come from no service. Public keys, so they may be kept. */
import { signal } from '@preact/signals';
import { parseVerifierKey, type SignatureType, type VerifierKey } from '../src/transparency/note.js';
import { utf8 } from '../src/transparency/bytes.js';
import { orElse, Refused } from '../src/transparency/refused.js';
import { type Trust } from '../src/transparency/signed.js';

/** As they are typed: a verifier key on each line. */
export interface TrustedKeys {
  /** Of the log, old and new: what `plants audit-key` prints. */
  readonly log: string;
  /** Of witnesses; or a policy (C2SP tlog-policy), whose quorum counts then. */
  readonly witnesses: string;
  /** Witnesses that have to have cosigned. */
  readonly required: number;
}

const NOBODY: TrustedKeys = { log: '', witnesses: '', required: 0 };

const KEPT_AS = 'plants-console-keys';

/** A browser may refuse its storage; then keys are kept for as long as the page is open. */
const stored = (): TrustedKeys => {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT_AS) ?? '{}');
    return { ...NOBODY, ...(kept as Partial<TrustedKeys>) };
  } catch {
    return NOBODY;
  }
};

/** The keys as they were typed last. */
export const trustedKeys = signal<TrustedKeys>(stored());

/** Keys that proofs are verified with. */
export const trust = signal<Trust | undefined>(undefined);

/** A line of a field that is not a verifier key. */
export class KeyRefused extends Error {
  override readonly name = 'KeyRefused';
  constructor(
    readonly field: 'log' | 'witnesses',
    message: string,
  ) {
    super(message);
  }
}

/** Trusts these keys from now on. Rejects with KeyRefused where one is none; then nothing changes. */
export const trustKeys = async (typed: TrustedKeys): Promise<void> => {
  const given = await trustIn(typed);
  trust.value = given;
  trustedKeys.value = typed;
  try {
    if (given.keys.length + given.witnesses.length === 0) localStorage.removeItem(KEPT_AS);
    else localStorage.setItem(KEPT_AS, JSON.stringify(typed));
  } catch {
    return;
  }
};

/** The keys that are trusted; without any, proofs are only seen to fit together. Rejects where nothing can be verified here. */
export const trustNow = async (): Promise<Trust> => {
  if (!('subtle' in crypto))
    throw new Error(
      'Nothing can be verified on this page: browsers give it no Web Crypto unless it comes by HTTPS or from this machine. Use plants check instead.',
    );
  if (!trust.peek())
    try {
      await trustKeys(trustedKeys.peek());
    } catch (error) {
      if (!(error instanceof KeyRefused)) throw error;
      await trustKeys(NOBODY); // what was kept is damaged
    }
  return trust.peek() ?? { keys: [], witnesses: [], required: 0 };
};

const trustIn = async ({ log, witnesses: text, required }: TrustedKeys): Promise<Trust> => {
  const keys = parsed(log, 'log', 'ed25519');
  if (/^\s*quorum\s/m.test(text)) {
    const { parsePolicy, trustInPolicy } = await import('../src/transparency/policy.js'); // few have one
    return orElse(() => trustInPolicy(parsePolicy(utf8(text)), keys), [Refused], refused('witnesses', ''));
  }
  const witnesses = parsed(text, 'witnesses', 'cosignature');
  if (required > witnesses.length)
    throw new KeyRefused('witnesses', `${required} are required, and here are ${witnesses.length}`);
  return { keys, witnesses, required };
};

const parsed = (text: string, field: KeyRefused['field'], type: SignatureType): VerifierKey[] => {
  const keys: VerifierKey[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    keys.push(
      orElse(() => parseVerifierKey(line.trim(), type), [Refused], refused(field, `line ${at + 1}: `)),
    );
  }
  return keys;
};

const refused =
  (field: KeyRefused['field'], where: string) =>
  ({ message }: Refused): never => {
    throw new KeyRefused(field, `${where}${message}`);
  };

/** Text for an error of verifying that is not about the proof. */
export const explained = (error: unknown): unknown =>
  error instanceof DOMException && error.name === 'NotSupportedError'
    ? new Error('This browser cannot verify Ed25519 signatures. Use a newer one, or plants check.')
    : error;

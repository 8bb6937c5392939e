import { readFileSync } from 'node:fs';
import { keyName, NoteRefused, parseVerifierKey } from '../transparency/note.js';
import { type WitnessTarget } from '../audit/add-checkpoint.js';
import { type Quorum } from '../transparency/cosignature.js';
import { parsePolicy, type Policy } from '../transparency/policy.js';
import { bad, ConfigError, type Environment, given } from './setting-values.js';

/** The witnesses of a log. */
export interface WitnessesConfig {
  readonly targets: readonly WitnessTarget[];
  /** How many of them, or which, have to cosign. */
  readonly required: number | Quorum;
}

/** More would be a mistake: each gets every checkpoint, and a note has room for 100 signatures. */
const MOST_WITNESSES = 32;

/** The settings of witnesses; undefined where there are none. Throws ConfigError. */
export const auditWitnesses = (env: Environment): WitnessesConfig | undefined => {
  const value = given(env, 'AUDIT_WITNESSES');
  const required = given(env, 'AUDIT_WITNESSES_REQUIRED');
  if (value === undefined) {
    if (required !== undefined)
      throw new ConfigError('AUDIT_WITNESSES_REQUIRED needs AUDIT_WITNESSES: no witness is named');
    return undefined;
  }
  const policy = /\s/.test(value) ? undefined : policyIn(value);
  const targets = policy
    ? policy.witnesses.map(({ key, url = '' }) => ({ key, url: baseUrl(url, refusedOf(keyName(key))) }))
    : value.split(',').map((text, at) => namedTarget(text.trim(), at + 1));
  const keys = targets.map(({ key }) => keyName(key));
  const twice = keys.find((key, at) => keys.indexOf(key) !== at);
  if (twice !== undefined) throw new ConfigError(`AUDIT_WITNESSES names ${twice} twice`);
  if (targets.length > MOST_WITNESSES)
    throw new ConfigError(`AUDIT_WITNESSES may name ${MOST_WITNESSES} witnesses, not ${targets.length}`);
  if (policy) {
    if (required !== undefined)
      throw new ConfigError('AUDIT_WITNESSES_REQUIRED: the quorum of the policy says it');
    return { targets, required: policy.quorum };
  }
  if (required !== undefined && !(/^[1-9]\d?$/.test(required) && Number(required) <= targets.length))
    throw bad(
      'AUDIT_WITNESSES_REQUIRED',
      required,
      `an integer from 1 to ${targets.length}, the number of witnesses`,
    );
  return { targets, required: required === undefined ? targets.length : Number(required) };
};

/** The policy file of that name. Throws ConfigError, also for one that needs no witness. */
const policyIn = (file: string): Policy => {
  try {
    const policy = parsePolicy(readFileSync(file));
    if (policy.quorum.threshold > 0) return policy;
    throw new ConfigError(`AUDIT_WITNESSES, ${file}: its quorum is none`);
  } catch (error) {
    if (error instanceof NoteRefused) throw new ConfigError(`AUDIT_WITNESSES, ${file}: ${error.message}`);
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new ConfigError(
      `AUDIT_WITNESSES names a file that cannot be read: ${file} (${code}). Without a file each witness is named by its verifier key, a space and its URL`,
    );
  }
};

const namedTarget = (text: string, number: number): WitnessTarget => {
  const [vkey = '', url = '', ...more] = text.split(/\s+/);
  const refused = refusedOf(String(number));
  if (url === '' || more.length > 0)
    throw refused(
      'it is named by its verifier key, a space and its URL, such as witness.example/w1+24b37851+BNYV… https://witness.example',
    );
  try {
    return { key: parseVerifierKey(vkey, 'cosignature'), url: baseUrl(url, refused) };
  } catch (error) {
    if (error instanceof NoteRefused) throw refused(error.message);
    throw error;
  }
};

const refusedOf =
  (witness: string) =>
  (reason: string): ConfigError =>
    new ConfigError(`AUDIT_WITNESSES, witness ${witness}: ${reason}`);

/** The URL before `/add-checkpoint`. Throws what `refused` gives. */
const baseUrl = (url: string, refused: (reason: string) => ConfigError): string => {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol) || /[@?#]/.test(url))
    throw refused('its URL begins with https:// or http://, and has no password, query or fragment');
  return url.replace(/\/+$/, '');
};

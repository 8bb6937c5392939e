import { keyName, NoteRefused, parseVerifierKey } from '../transparency/note.js';
import { type WitnessTarget } from '../audit/witnessing.js';
import { bad, ConfigError, type Environment, given } from './setting-values.js';

/** The witnesses of a log. */
export interface WitnessesConfig {
  readonly targets: readonly WitnessTarget[];
  /** Witnesses that have to cosign. */
  readonly required: number;
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
  const targets = value.split(',').map((text, at) => targetOf(text.trim(), at + 1));
  const keys = targets.map(({ key }) => keyName(key));
  const twice = keys.find((key, at) => keys.indexOf(key) !== at);
  if (twice !== undefined) throw new ConfigError(`AUDIT_WITNESSES names ${twice} twice`);
  if (targets.length > MOST_WITNESSES)
    throw new ConfigError(`AUDIT_WITNESSES may name ${MOST_WITNESSES} witnesses, not ${targets.length}`);
  if (required !== undefined && !(/^[1-9]\d?$/.test(required) && Number(required) <= targets.length))
    throw bad(
      'AUDIT_WITNESSES_REQUIRED',
      required,
      `an integer from 1 to ${targets.length}, the number of witnesses`,
    );
  return { targets, required: required === undefined ? targets.length : Number(required) };
};

const targetOf = (text: string, number: number): WitnessTarget => {
  const [vkey = '', url = '', ...more] = text.split(/\s+/);
  const refused = (reason: string): ConfigError =>
    new ConfigError(`AUDIT_WITNESSES, witness ${number}: ${reason}`);
  if (url === '' || more.length > 0)
    throw refused(
      'it is named by its verifier key, a space and its URL, such as witness.example/w1+24b37851+BNYV… https://witness.example',
    );
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol) || /[@?#]/.test(url))
    throw refused('its URL begins with https:// or http://, and has no password, query or fragment');
  try {
    return { key: parseVerifierKey(vkey, 'cosignature'), url: url.replace(/\/+$/, '') };
  } catch (error) {
    if (error instanceof NoteRefused) throw refused(error.message);
    throw error;
  }
};

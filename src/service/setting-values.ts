import { SETTINGS, type SettingName } from './settings.js';

/** A setting that cannot be used. The message is one line for the person who set it, without a secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A setting as it was given; undefined where it is unset or empty. */
export const given = (env: Environment, name: SettingName): string | undefined =>
  env[name] === '' ? undefined : env[name];

/** A setting as it was given, or its default. */
export const setting = (env: Environment, name: SettingName): string =>
  given(env, name) ?? SETTINGS.find((one) => one.name === name)?.default ?? '';

/** A value made safe for one line of a terminal. One that may hold credentials or a secret query is not shown. */
const shown = (value: string): string => {
  if (/[@?]/.test(value)) return 'the given value (not shown: it may hold a secret)';
  const text = value.length > 80 ? `${value.slice(0, 80)}…` : value;
  return JSON.stringify(text).replace(
    /[\p{Cc}\p{Zl}\p{Zp}]/gu,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
};

/** The error for a value that is not one of the allowed ones. */
export const bad = (name: SettingName, value: string, allowed: string): ConfigError =>
  new ConfigError(`${name} must be ${allowed}, not ${shown(value)}`);

/** A whole number in a range. Throws ConfigError. */
export const integer = (env: Environment, name: SettingName, minimum: number, maximum: number): number => {
  const value = setting(env, name);
  const number = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
  if (!(number >= minimum && number <= maximum))
    throw bad(name, value, `an integer from ${minimum} to ${maximum}`);
  return number;
};

/** One word of several. Throws ConfigError. */
export const oneOf = <Word extends string>(
  env: Environment,
  name: SettingName,
  words: readonly [Word, Word, ...Word[]],
): Word => {
  const value = setting(env, name);
  const word = words.find((one) => one === value);
  if (!word) throw bad(name, value, words.length === 2 ? words.join(' or ') : `one of ${words.join(', ')}`);
  return word;
};

/** A switch. Throws ConfigError. */
export const onOrOff = (env: Environment, name: SettingName): boolean =>
  oneOf(env, name, ['on', 'off']) === 'on';

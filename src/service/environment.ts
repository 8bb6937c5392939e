import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { ConfigError } from './setting-values.js';
import { REMOVED_SETTINGS, SETTINGS } from './settings.js';

/** Environment variables, which are completed in place. */
type Environment = Record<string, string | undefined>;

/** Settings that may hold a secret: NAME_FILE names a file with the value, as secrets of containers are given. */
export const SECRET_SETTINGS = ['EVENT_LOG', 'READ_MODEL', 'OTEL_EXPORTER_OTLP_HEADERS'] as const;

/** The longest file of settings or of a secret, in bytes. */
const MAX_BYTES = 64 * 1024;

/** The file of settings, in the working directory. */
const FILE = '.env';

/**
 * Completes the environment: with the settings in `folder`/.env, where the environment has none of them, and with the
 * contents of the files that NAME_FILE names, without one line end at their end. Names in .env that are no settings are
 * ignored: other programs may use the file too. Returns the settings that came from .env. Throws ConfigError for a file
 * that cannot be read, and where NAME and NAME_FILE are both set.
 */
export const completeEnvironment = (env: Environment, folder: string): ReadonlySet<string> => {
  const added = settingsIn(join(folder, FILE)).filter(([name]) => {
    const setting = settingOf(name);
    return env[setting] === undefined && env[fileOf(setting)] === undefined;
  });
  for (const [name, value] of added) env[name] = value;
  for (const name of SECRET_SETTINGS) {
    const file = env[fileOf(name)];
    if (!file) continue;
    if (env[name]) throw new ConfigError(`${name} and ${fileOf(name)} are both set: leave one of them out`);
    const value = read(file, fileOf(name))?.replace(/\r?\n$/, '');
    if (!value) throw new ConfigError(`${fileOf(name)}: ${JSON.stringify(file)} is missing or empty`);
    env[name] = value;
  }
  return new Set(added.map(([name]) => settingOf(name)));
};

const fileOf = (name: string): string => `${name}_FILE`;

/** The setting of a variable: NAME for NAME and for NAME_FILE. */
const settingOf = (name: string): string => SECRET_SETTINGS.find((secret) => fileOf(secret) === name) ?? name;

const NAMES: ReadonlySet<string> = new Set([
  ...SETTINGS.map(({ name }) => name),
  ...SECRET_SETTINGS.map(fileOf),
  ...Object.keys(REMOVED_SETTINGS), // so that they are refused, and not ignored
]);

const settingsIn = (file: string): [name: string, value: string][] =>
  Object.entries(parseEnv(read(file, FILE) ?? '')).flatMap(([name, value = '']) =>
    NAMES.has(name) ? [[name, value]] : [],
  );

/** The text of a file; undefined where there is none. Only of a regular file: reading a pipe may never end. */
const read = (file: string, name: string): string | undefined => {
  const refused = (why: string): ConfigError => new ConfigError(`${name}: ${JSON.stringify(file)} ${why}`);
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    if (!found) return undefined;
    if (!found.isFile()) throw refused('is not a file');
    if (found.size > MAX_BYTES) throw refused(`is longer than ${MAX_BYTES} bytes`);
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw refused(code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'is not UTF-8' : `cannot be read (${code})`);
  }
};

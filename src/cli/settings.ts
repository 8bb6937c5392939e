import { completeEnvironment } from '../service/environment.js';
import { type Config, loadConfig } from '../service/config.js';
import { ConfigError } from '../service/setting-values.js';

let known: Config | undefined;

/** The settings, of the environment and of .env in the working directory, read once. Throws ConfigError. */
export const settings = (): Config => (known ??= readSettings());

const readSettings = (): Config => {
  const fromFile = completeEnvironment(process.env, process.cwd());
  try {
    return loadConfig(process.env);
  } catch (error) {
    const [name = ''] = /^[A-Z_]+/.exec((error as Error).message) ?? [];
    throw fromFile.has(name) ? new ConfigError(`${(error as Error).message} (set in .env)`) : error;
  }
};

import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadConfig } from '../src/service/config.js';
import { openLocalKey } from '../src/http/auth/local-key.js';
import { signToken } from '../src/cli/token.js';
import { answers, freePort, launch, type Running, stop, until } from './processes.js';

export const CLI = fileURLToPath(new URL('../../bin/plants.js', import.meta.url));

/** How many tokens are signed at a time: more would only wait in memory. */
const SIGNED_TOGETHER = 500;

export type Settings = Readonly<Record<string, string>>;

/** Signs tokens with one local key, which every service of a run uses. */
export class Keys {
  #file: string | undefined;

  constructor(private readonly folder: string) {}

  /** The value of the Authorization header of an owner. */
  async authorization(owner: string, scope?: string): Promise<string> {
    const config = loadConfig({ DATA_DIR: this.folder });
    const { token, keyFile } = await signToken(config, { owner, scope, expires: '12h' }, new Date());
    this.#file = keyFile;
    return `Bearer ${token}`;
  }

  /** A file with the authorizations of owners, one a line. */
  async authorizations(file: string, owners: readonly string[]): Promise<string> {
    const lines: string[] = [];
    for (let from = 0; from < owners.length; from += SIGNED_TOGETHER) {
      const some = owners.slice(from, from + SIGNED_TOGETHER);
      lines.push(...(await Promise.all(some.map((owner) => this.authorization(owner)))));
    }
    writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
    return file;
  }

  /** What another service needs to accept the tokens, as environment variables. */
  async verification(): Promise<Settings> {
    const { auth } = loadConfig({ DATA_DIR: this.folder });
    const { publicJwk } = await openLocalKey(this.folder);
    return { PUBLIC_JWK: JSON.stringify(publicJwk), ISSUER: auth.issuer, AUDIENCE: auth.audience };
  }

  /** Gives a data folder the key, so that a service there accepts the tokens. */
  async giveTo(dataDir: string): Promise<void> {
    if (this.#file === undefined) await this.authorization('nobody');
    mkdirSync(dataDir, { recursive: true });
    if (this.#file !== undefined) copyFileSync(this.#file, join(dataDir, basename(this.#file)));
  }
}

export interface ServiceOptions {
  readonly dataDir: string;
  readonly settings?: Settings;
  /** Arguments of Node itself. */
  readonly nodeArguments?: readonly string[];
  /** Whether to wait until lists are answered; without it, until the process listens. */
  readonly waitFor?: '/health/ready' | '/health/live';
  /** How often it is asked, in milliseconds. */
  readonly everyMs?: number;
}

export interface Service {
  readonly process: Running;
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts this service as it is, in a process of its own. It logs each request, as it does where nobody sets anything. */
export const startService = async ({
  dataDir,
  settings = {},
  nodeArguments = [],
  waitFor = '/health/ready',
  everyMs,
}: ServiceOptions): Promise<Service> => {
  const port = await freePort();
  const process_ = await launch(process.execPath, ['--no-warnings', ...nodeArguments, CLI, 'serve'], {
    env: {
      PATH: process.env.PATH ?? '',
      HOST: '127.0.0.1',
      PORT: `${port}`,
      DATA_DIR: dataDir,
      DRAIN_MS: '0',
      ...settings,
    },
  });
  const url = `http://127.0.0.1:${port}`;
  await until(`the service answers at ${waitFor}`, process_, () => answers(`${url}${waitFor}`), everyMs);
  return { process: process_, url, stop: () => stop(process_) };
};

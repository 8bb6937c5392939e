import { createPrivateKey, type JsonWebKey, randomUUID, sign } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadConfig } from '../src/service/config.js';
import { openLocalKey } from '../src/http/auth/local-key.js';
import { signToken } from '../src/cli/token.js';
import { answers, freePort, launch, type Running, stop, until } from './processes.js';

export const CLI = fileURLToPath(new URL('../../bin/plants.js', import.meta.url));

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

  /**
   * A file with the authorizations of owners, one a line: the claims of a token of `plants token`, with another subject
   * and id, signed with the same key by node:crypto, which takes a tenth of the time.
   */
  async authorizations(file: string, owners: readonly string[]): Promise<string> {
    const like = await this.authorization('nobody');
    const [header = '', claims = ''] = like.split('.');
    const known = JSON.parse(Buffer.from(claims, 'base64url').toString()) as object;
    const jwk = JSON.parse(readFileSync(this.#file ?? '', 'utf8')) as JsonWebKey;
    const key = createPrivateKey({ key: jwk, format: 'jwk' });
    const lines = owners.map((sub) => {
      const own = Buffer.from(JSON.stringify({ ...known, sub, jti: randomUUID() })).toString('base64url');
      const signed = `${header}.${own}`;
      const token = Buffer.from(signed.replace(/^Bearer /, ''));
      return `${signed}.${sign('sha256', token, { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
    });
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

/** How often a long work is looked at, in milliseconds: rarely, since each look takes time from it. */
const LOOK_EVERY_MS = 100;

/** What takes longest on a slow disk, in milliseconds. */
const LONG_MS = 600_000;

/** Asks a service rarely, and for a long time, whether it has come so far. */
export const untilFarEnough = (
  what: string,
  { process }: Service,
  isSo: () => Promise<boolean>,
): Promise<void> => until(what, process, isSo, LOOK_EVERY_MS, LONG_MS);

/** Waits until lists are answered. */
export const untilReady = (service: Service): Promise<void> =>
  untilFarEnough('lists are answered', service, () => answers(`${service.url}/health/ready`));

/** Waits until the tree holds so many events. */
export const untilAudited = (service: Service, events: number): Promise<void> =>
  untilFarEnough('the tree holds the whole log', service, async () => {
    const answer = await fetch(`${service.url}/log/checkpoint`);
    const size = Number((await answer.text()).split('\n')[1]);
    return answer.ok && size >= events;
  });

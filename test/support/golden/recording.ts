import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { TokenMint } from '../auth-tokens.js';
import { until } from '../waiting.js';
import { type GoldenRequest, TOKENS } from './requests.js';

export interface GoldenAnswer {
  readonly request: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface GoldenOutput {
  readonly command: string;
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Settings under which nothing of a recording depends on the time. */
const SETTINGS = {
  HOST: '127.0.0.1',
  PORT: '0',
  DRAIN_MS: '0',
  VERIFY_EVERY_SECONDS: '0',
  AUDIT_ORIGIN: 'golden.example/plants',
};

type Environment = Readonly<Record<string, string>>;

const environment = (settings: Environment): NodeJS.ProcessEnv => {
  const { PATH, NODE_V8_COVERAGE } = process.env;
  return {
    PATH,
    ...(NODE_V8_COVERAGE ? { NODE_V8_COVERAGE } : {}),
    ...(settings.GOLDEN_NOW
      ? { NODE_OPTIONS: `--import ${new URL('./clock.js', import.meta.url).href}` }
      : {}),
    ...SETTINGS,
    ...settings,
  };
};

/** Starts the service of a `bin/plants.js`; resolves once it is ready. */
export const startService = async (
  bin: string,
  settings: Environment,
): Promise<{ readonly url: string; readonly stop: () => Promise<void> }> => {
  const child = spawn(process.execPath, ['--no-warnings', bin, 'serve'], {
    env: environment(settings),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => (stderr += piece));
  const lines = createInterface({ input: child.stdout });
  const ended = once(child, 'exit');
  const url = await new Promise<string>((resolve, reject) => {
    lines.on('line', (line) => {
      const { url } = JSON.parse(line) as { url?: unknown };
      if (typeof url === 'string') resolve(url);
    });
    void ended.then(() => {
      reject(new Error(`the service ended: ${stderr}`));
    });
  });
  await until(async () => {
    const answer = await fetch(`${url}/health/ready`);
    await answer.arrayBuffer();
    return answer.ok;
  });
  return {
    url,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
};

/** Runs a command of a `bin/plants.js`. */
export const runCommand = async (
  bin: string,
  args: readonly string[],
  settings: Environment,
): Promise<{ status: number | null; stdout: string; stderr: string }> => {
  const child = spawn(process.execPath, ['--no-warnings', bin, ...args], {
    env: environment(settings),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { status: child.exitCode, stdout, stderr };
};

/** The end of the year 2100, in seconds since 1970: after every time at which a recording is replayed. */
const LATE = 4_133_980_800;

/** A token for each name of TOKENS, signed with the local key of `DATA_DIR`, whatever the clock of the service says. */
export const tokensOf = async ({ DATA_DIR = '' }: Environment): Promise<ReadonlyMap<string, string>> => {
  const mint = await TokenMint.local(DATA_DIR);
  return new Map(
    await Promise.all(
      Object.entries(TOKENS).map(async ([name, [sub, scope]]): Promise<[string, string]> => {
        return [name, await mint.token({ sub, scope, iat: undefined, exp: LATE })];
      }),
    ),
  );
};

const HOP_FIELDS = new Set(['connection', 'date', 'keep-alive', 'transfer-encoding']);
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** Replaces what differs from run to run: times after `madeAt`, UUIDs that the golden log does not hold, and paths. */
export class Stable {
  constructor(
    private readonly madeAt: string,
    private readonly golden: string,
    private readonly replaced: Readonly<Record<string, string>> = {},
  ) {}

  text(value: string): string {
    let found = value
      .replace(UUID, (uuid) => (this.golden.includes(uuid) ? uuid : '<uuid>'))
      .replace(TIME, (time) => (time > this.madeAt && time < '2900' ? '<time>' : time));
    for (const [what, name] of Object.entries(this.replaced)) found = found.replaceAll(what, name);
    // The id of the one generation that there is: it was 1 before ids were random.
    found = found.replace(/"(generation|active)":\d{5,}/g, '"$1":1');
    return found.replace(/"(seconds|estimatedSeconds\w*)":[\d.]+/g, '"$1":"<seconds>"');
  }
}

/** Sends requests one after the other; gives what is compared of their answers. */
export const record = async (
  url: string,
  requests: readonly GoldenRequest[],
  tokens: ReadonlyMap<string, string>,
  stable: Stable,
): Promise<GoldenAnswer[]> => {
  const answers: GoldenAnswer[] = [];
  for (const one of requests) {
    const { as, method = 'GET', path, headers = {}, body, compare } = one;
    const token = as && tokens.get(as);
    const sent = request(new URL(url), {
      agent: false,
      method,
      path,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
        ...headers,
      },
    });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece as Buffer);
    const bytes = Buffer.concat(pieces);
    const zipped = response.headers['content-encoding'] === 'gzip' && bytes.length > 0;
    const raw = (zipped ? gunzipSync(bytes) : bytes).toString();
    const shown = shownBody(raw, compare);
    const text = stable.text(shown);
    const isWhole = compare === undefined && text === shown;
    answers.push({
      request: `${as ?? 'no token'}: ${method} ${path} ${JSON.stringify(headers)} ${(body ?? '').slice(0, 80)}`,
      status: response.statusCode ?? 0,
      headers: Object.fromEntries(
        Object.entries(response.headers)
          .filter(([name]) => !HOP_FIELDS.has(name))
          // They follow from a body that is compared in part, or after replacements.
          .filter(([name]) => isWhole || !['etag', 'content-length'].includes(name))
          .map(([name, value]): [string, string] => [name, stable.text(String(value))])
          .sort(([one], [other]) => (one < other ? -1 : 1)),
      ),
      body: text,
    });
  }
  return answers;
};

const shownBody = (body: string, compare: GoldenRequest['compare']): string => {
  switch (compare) {
    case undefined:
      return body;
    case 'head':
      return '';
    case 'keys':
      return JSON.stringify(keysOf(JSON.parse(body) as unknown));
    case 'metric names':
      return body
        .split('\n')
        .filter((line) => line.startsWith('# TYPE plants_'))
        .sort()
        .join('\n');
  }
};

/** The names in a JSON value; of an array, those of its first element. */
const keysOf = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.slice(0, 1).map(keysOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, keysOf(one)]));
};

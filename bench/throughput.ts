/**
 * How many requests a second the service answers on this machine, beside a bare node:http server that returns
 * the same bytes: `npm run bench`. Server and client share the cores: autocannon, which runs in this process,
 * takes about one of them, with either server.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import autocannon from 'autocannon';
import { loadConfig } from '../src/config.js';
import { signToken } from '../src/token.js';

const CLI = fileURLToPath(new URL('../src/cli.js', import.meta.url));
const SELF = fileURLToPath(import.meta.url);

const CONNECTIONS = 32;
const SECONDS = 8;
const WARM_UP_SECONDS = 2;

/** Owners whose plants are created and deleted. */
const OWNERS = 8;

/** The plants of the list. */
const LISTED = 20;

/** What the bare server answers, by method: what the service has answered once. */
type Answers = Readonly<
  Record<string, Readonly<{ status: number; headers: Readonly<Record<string, string>>; body: string }>>
>;

type Request = autocannon.Request;

/** One kind of request; where each has to be another one, `next` makes it. */
interface Load {
  readonly name: string;
  readonly request: Request;
  readonly next?: () => Request;
}

/** The bare server: reads a request whole, and answers what it was given. */
const serveBare = (port: number, answers: Answers): void => {
  createServer({ keepAliveTimeout: 65_000 }, (request, response) => {
    request.resume();
    request.on('end', () => {
      const { status, headers, body } = answers[request.method ?? ''] ?? {
        status: 500,
        headers: {},
        body: '',
      };
      response.writeHead(status, headers).end(body);
    });
  }).listen(port, '127.0.0.1');
};

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
};

/** Starts a server as a process of its own, and waits until it answers at a path. */
const startServer = async (
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  port: number,
  path: string,
): Promise<ChildProcess> => {
  const child = spawn(process.execPath, ['--no-warnings', ...args], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  while (child.exitCode === null) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer?.ok) return child;
  }
  throw new Error(`${args.join(' ')} ended with ${child.exitCode}`);
};

const stopServer = async (child: ChildProcess): Promise<void> => {
  child.kill('SIGTERM');
  await once(child, 'exit');
};

interface Measured {
  readonly name: string;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly failed: number;
}

const measure = async (url: string, { name, request, next }: Load, seconds: number): Promise<Measured> => {
  const requests = [next ? { ...request, setupRequest: () => ({ ...request, ...next() }) } : request];
  const result = await autocannon({ url, connections: CONNECTIONS, duration: seconds, requests });
  return {
    name,
    perSecond: result.requests.total / result.duration,
    p50: result.latency.p50,
    p99: result.latency.p99,
    failed: result.non2xx + result.errors,
  };
};

const number = (value: number): string => value.toLocaleString('en', { maximumFractionDigits: 0 });

const row = (cells: readonly string[]): string =>
  cells.map((cell, at) => (at < 2 ? cell.padEnd(18) : cell.padStart(11))).join('');

const captured = async (url: string, { method = 'GET', path = '', headers, body }: Request) => {
  const answer = await fetch(new URL(path, url), {
    method,
    headers: headers as Record<string, string>,
    ...(body === undefined ? {} : { body: body.toString() }),
  });
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`);
  const own = ['connection', 'keep-alive', 'date', 'transfer-encoding']; // every node:http server sends these itself
  const kept = [...answer.headers].filter(([name]) => !own.includes(name));
  return [
    method,
    { status: answer.status, headers: Object.fromEntries(kept), body: await answer.text() },
  ] as const;
};

const bench = async (): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'plants-bench-'));
  const port = await freePort();
  const settings = { HOST: '127.0.0.1', PORT: String(port), DATA_DIR: folder, LOG_LEVEL: 'info' };
  const config = loadConfig(settings);
  const authorization = async (owner: string): Promise<string> => {
    const { token } = await signToken(config, { owner, expires: '1h' }, new Date());
    return `Bearer ${token}`;
  };
  const lister = { authorization: await authorization('lister') };
  const writers = await Promise.all(
    Array.from({ length: OWNERS }, async (_, owner) => ({
      authorization: await authorization(`owner ${owner}`),
    })),
  );
  const creation = (id: number, headers: Record<string, string>): Request => ({
    method: 'POST',
    path: '/plants',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ name: `Monstera deliciosa ${id}`, tag: 'aroid', id }),
  });
  const writerOf = (id: number) => writers[id % OWNERS] ?? lister;

  let created = 0;
  let deleted = 0;
  const list: Load = {
    name: `list of ${LISTED}`,
    request: { method: 'GET', path: `/plants?limit=${LISTED}`, headers: lister },
  };
  const create: Load = {
    name: 'create',
    request: { method: 'POST', path: '/plants' },
    next: () => creation(++created, writerOf(created)),
  };
  const remove: Load = {
    name: 'delete',
    request: { method: 'DELETE' },
    next: () => ({ path: `/plants/${++deleted}`, headers: writerOf(deleted) }),
  };

  const service = await startServer([CLI, 'serve'], { ...process.env, ...settings }, port, '/health/ready');
  const url = `http://127.0.0.1:${port}`;
  try {
    for (let id = 1; id <= LISTED; id++) await captured(url, creation(id, lister));
    const answers: Answers = Object.fromEntries([
      await captured(url, creation(-1, lister)),
      await captured(url, { method: 'DELETE', path: '/plants/-1', headers: lister }),
      await captured(url, list.request),
    ]);
    const barePort = await freePort();
    const bareUrl = `http://127.0.0.1:${barePort}`;
    // The bare server runs only while it is measured, and the service idles meanwhile.
    const bare = async (load: Load): Promise<Measured> => {
      const env = { ...process.env, PORT: String(barePort), ANSWERS: JSON.stringify(answers) };
      const server = await startServer([SELF, 'bare'], env, barePort, '/');
      try {
        await measure(bareUrl, load, WARM_UP_SECONDS);
        return await measure(bareUrl, load, SECONDS);
      } finally {
        await stopServer(server);
      }
    };

    console.log(
      `Node ${process.version}, ${availableParallelism()} cores, ${CONNECTIONS} connections on loopback, ${SECONDS} s each, SQLite for both stores\n`,
    );
    console.log(row(['requests', 'server', 'requests/s', 'p50 ms', 'p99 ms', 'failed', 'of bare']));
    const compare = async (load: Load, warmUp: number, seconds: number): Promise<void> => {
      if (warmUp > 0) await measure(url, load, warmUp);
      const ours = await measure(url, load, seconds);
      const before = { created, deleted };
      const theirs = await bare(load);
      ({ created, deleted } = before); // the bare server has neither created nor deleted anything
      for (const [server, { name, perSecond, p50, p99, failed }] of [
        ['plants', ours],
        ['bare node:http', theirs],
      ] as const)
        console.log(
          row([
            name,
            server,
            number(perSecond),
            number(p50),
            number(p99),
            number(failed),
            `${number((100 * perSecond) / theirs.perSecond)} %`,
          ]),
        );
    };
    await compare(list, WARM_UP_SECONDS, SECONDS);
    await compare(create, WARM_UP_SECONDS, SECONDS);
    // Each plant can be deleted once, and deletes are faster than creates: half the time is enough for them.
    await compare(remove, 0, SECONDS / 2);
  } finally {
    await stopServer(service);
    rmSync(folder, { recursive: true, force: true });
  }
};

if (process.argv[2] === 'bare')
  serveBare(Number(process.env.PORT), JSON.parse(process.env.ANSWERS ?? '{}') as Answers);
else await bench();

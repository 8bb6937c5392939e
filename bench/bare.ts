import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { type Stage, type Target } from './contenders.js';
import { answers, freePort, launch, stop, until } from './processes.js';

const SELF = fileURLToPath(import.meta.url);

/** What a server answered once, to be answered again by path and query. */
export type Answers = Readonly<
  Record<string, Readonly<{ headers: Readonly<Record<string, string>>; body: string }>>
>;

/** Every node:http server sends these itself. */
const OF_ANY_SERVER = ['connection', 'keep-alive', 'date', 'transfer-encoding'];

/** Asks for what the bare server is to answer. */
export const captured = async (url: string, path: string, authorization: string): Promise<Answers> => {
  // The load generators accept no compression either.
  const answer = await fetch(`${url}${path}`, { headers: { authorization, 'accept-encoding': 'identity' } });
  const body = await answer.text();
  if (!answer.ok) throw new Error(`GET ${path} answered ${answer.status}: ${body}`);
  const headers = Object.fromEntries([...answer.headers].filter(([name]) => !OF_ANY_SERVER.includes(name)));
  return { [path]: { headers, body } };
};

/** Starts the bare server with what it is to answer. */
export const startBare = async (stage: Stage, all: Answers): Promise<Target> => {
  const port = await freePort();
  const file = stage.newPath('answers.json');
  writeFileSync(file, JSON.stringify(all));
  const process_ = await launch(process.execPath, ['--no-warnings', SELF, 'serve'], {
    env: { PATH: process.env.PATH ?? '', PORT: `${port}`, ANSWERS: file },
  });
  const url = `http://127.0.0.1:${port}`;
  await until('the bare server answers', process_, () => answers(`${url}/`));
  return {
    url,
    pid: process_.pid,
    servers: [],
    authorizations: (owners) => stage.authorizations(owners),
    stop: () => stop(process_),
  };
};

/** Reads a request whole, and answers what it was given. */
const serve = (port: number, all: Answers): void => {
  const other = { headers: {}, body: '' };
  createServer({ keepAliveTimeout: 65_000 }, (request, response) => {
    request.resume();
    request.on('end', () => {
      const { headers, body } = all[request.url ?? ''] ?? other;
      response.writeHead(200, headers).end(body);
    });
  }).listen(port, '127.0.0.1');
};

if (process.argv[1] === SELF && process.argv[2] === 'serve')
  serve(Number(process.env.PORT), JSON.parse(readFileSync(process.env.ANSWERS ?? '', 'utf8')) as Answers);

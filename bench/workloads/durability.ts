import { Agent, request as send } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type Context } from '../context.js';
import { Broken } from '../processes.js';
import { creation } from '../requests.js';
import { startService } from '../service.js';

const CONNECTIONS = 256;
const OWNER = 'durable';

/** What clients know of their plants. */
interface Known {
  readonly asked: Set<number>;
  readonly acknowledged: Set<number>;
}

/**
 * Kills the service as a power cut of the process would (SIGKILL) in the middle of creates by 256 connections, starts it
 * again on the same data, and reads everything back: each acknowledged plant is there, and none that nobody asked for.
 */
export const durability = async (context: Context): Promise<void> => {
  if (!context.wants('durability')) return;
  const { stage, sizes, results, say } = context;
  const dataDir = stage.newPath('durable');
  await stage.keys.giveTo(dataDir);
  const authorization = await stage.keys.authorization(OWNER);
  const known: Known = { asked: new Set(), acknowledged: new Set() };
  for (let kill = 1; kill <= sizes.kills; kill++) {
    const service = await startService({ dataDir });
    const before = known.acknowledged.size;
    const asking = ask(service.url, authorization, known);
    await delay(1_000 * Math.max(1, sizes.seconds / 2) + Math.random() * 200);
    service.process.child.kill('SIGKILL');
    await asking;
    if (known.acknowledged.size === before)
      throw new Broken('no create was acknowledged before the service was killed');
    say(
      `killed the service ${kill} times of ${sizes.kills}: ${known.acknowledged.size} acknowledged creates`,
    );
  }
  const service = await startService({ dataDir });
  try {
    const found = await readAll(service.url, authorization);
    const lost = [...known.acknowledged].filter((id) => !found.has(id));
    const invented = [...found].filter((id) => !known.asked.has(id));
    if (lost.length > 0 || invented.length > 0)
      throw new Broken(
        `after kill -9, ${lost.length} acknowledged plants are lost (first: ${String(lost[0])}), and ${invented.length} were never asked for (first: ${String(invented[0])})`,
      );
    results.proofs.push(
      `${sizes.kills} times kill -9 under creates by ${CONNECTIONS} connections: all ${known.acknowledged.size} acknowledged plants are in the list afterwards, and none that nobody asked for (${known.asked.size} were asked for).`,
    );
  } finally {
    await service.stop();
  }
};

/** Creates plants until the service is gone. */
const ask = async (url: string, authorization: string, { asked, acknowledged }: Known): Promise<void> => {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  let gone = false;
  const worker = async (): Promise<void> => {
    while (!gone) {
      const id = asked.size + 1;
      asked.add(id);
      const status = await statusOf(agent, url, id, authorization);
      if (status === 201) acknowledged.add(id);
      else if (status === undefined) gone = true;
      else throw new Broken(`a create was answered with ${status}`);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  agent.destroy();
};

/** The status of the answer; undefined where the connection broke before there was one. */
const statusOf = (
  agent: Agent,
  url: string,
  id: number,
  authorization: string,
): Promise<number | undefined> =>
  new Promise((resolve) => {
    const { method, path, headers, body = '' } = creation(id, authorization);
    const length = { 'content-length': Buffer.byteLength(body) };
    const sent = send(`${url}${path}`, { agent, method, headers: { ...headers, ...length } }, (answer) => {
      answer.resume();
      answer.once('end', () => {
        resolve(answer.statusCode);
      });
      answer.once('error', () => {
        resolve(undefined);
      });
    });
    sent.once('error', () => {
      resolve(undefined);
    });
    sent.end(body);
  });

/** The ids of all plants of the owner, which stand in their names, page by page. */
const readAll = async (url: string, authorization: string): Promise<Set<number>> => {
  const found = new Set<number>();
  let path: string | undefined = '/plants?limit=1000';
  while (path !== undefined) {
    const answer: Response = await fetch(`${url}${path}`, { headers: { authorization } });
    if (!answer.ok) throw new Broken(`a list was answered with ${answer.status} after the restart`);
    for (const { name } of (await answer.json()) as { name: string }[]) {
      const id = Number(name.replace(/^Monstera deliciosa /, ''));
      if (found.has(id)) throw new Broken(`plant ${id} is in the list twice`);
      found.add(id);
    }
    path = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
  }
  return found;
};

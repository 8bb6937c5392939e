import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { fetched } from '../processes.js';
import { answerTo, creation } from '../requests.js';
import { type Context } from '../results.js';

const CONNECTIONS = 256;

/**
 * Kills the service as a power cut of the process would (SIGKILL) in the middle of creates by 256 connections, starts it
 * again on the same data, and reads everything back: each acknowledged plant is there, and none that nobody asked for.
 */
export const durability = async (context: Context): Promise<void> => {
  if (!context.wants('durability')) return;
  const { stage, sizes, results, say } = context;
  const dataDir = stage.newDataDir();
  const authorization = await stage.tokens.authorization('durable');
  const [asked, acknowledged] = [new Set<number>(), new Set<number>()];
  for (let kill = 1; kill <= sizes.kills; kill++) {
    const service = await stage.service(dataDir);
    const before = acknowledged.size;
    const creating = create(service.url, authorization, asked, acknowledged);
    await delay(1_000 * Math.max(1, sizes.seconds / 2) + Math.random() * 200);
    service.process.child.kill('SIGKILL');
    await creating;
    if (acknowledged.size === before)
      throw new Error('no create was acknowledged before the service was killed');
    say(`killed the service ${kill} times of ${sizes.kills}: ${acknowledged.size} acknowledged creates`);
  }
  const service = await stage.service(dataDir);
  const found = await readAll(service.url, authorization);
  const lost = [...acknowledged].filter((id) => !found.has(id));
  const invented = [...found].filter((id) => !asked.has(id));
  if (lost.length > 0 || invented.length > 0)
    throw new Error(
      `after kill -9, ${lost.length} acknowledged plants are lost (first: ${String(lost[0])}), and ${invented.length} were never asked for (first: ${String(invented[0])})`,
    );
  results.proofs.push(
    `${sizes.kills} times kill -9 under creates by ${CONNECTIONS} connections: all ${acknowledged.size} acknowledged plants are in the list afterwards, and none that nobody asked for (${asked.size} were asked for).`,
  );
};

/** Creates plants until the service is gone. */
const create = async (
  url: string,
  authorization: string,
  asked: Set<number>,
  acknowledged: Set<number>,
): Promise<void> => {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  let gone = false;
  const worker = async (): Promise<void> => {
    while (!gone) {
      const id = asked.size + 1;
      asked.add(id);
      const answer = await answerTo(creation(id, authorization), url, agent).catch(() => undefined);
      if (answer?.status === 201) acknowledged.add(id);
      else if (answer) throw new Error(`a create was answered with ${answer.status}`);
      else gone = true;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  agent.destroy();
};

/** The ids of all plants of the owner, which stand in their names, page by page. */
const readAll = async (url: string, authorization: string): Promise<Set<number>> => {
  const found = new Set<number>();
  let path: string | undefined = '/plants?limit=1000';
  while (path !== undefined) {
    const answer: Response = await fetched(new URL(path, url), { headers: { authorization } });
    for (const { name } of (await answer.json()) as { name: string }[]) {
      const id = Number(name.replace(/^Monstera deliciosa /, ''));
      if (found.has(id)) throw new Error(`plant ${id} is in the list twice`);
      found.add(id);
    }
    const next = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
    path = next && `/plants${next}`;
  }
  return found;
};

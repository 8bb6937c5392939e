import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** The port of a Redis cluster's own traffic is this much above the port of its clients, in every version. */
const BUS_OFFSET = 10_000;

/**
 * Ports that nothing listens on, neither on them nor on the cluster's port that belongs to each. They are below those
 * that the system gives to others, who would take them while a server is away: whoever lets a port go and comes back to
 * it takes one of these.
 */
export const freePorts = async (count: number): Promise<number[]> => {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(10_000, 32_000 - BUS_OFFSET);
    if ((await isFree(port)) && (await isFree(port + BUS_OFFSET))) ports.add(port);
  }
  return [...ports];
};

const isFree = async (port: number): Promise<boolean> => {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  await once(server.close(), 'close');
  return true;
};

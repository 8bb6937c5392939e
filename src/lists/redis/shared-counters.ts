import { partitionOf } from '../read-model.js';
import { type SharedCounters } from '../shared-counters.js';
import { withDeadline } from './deadline.js';
import { serverCheck } from './server-check.js';
import { Keys } from './keys.js';
import { type RedisConnectionString } from './connection-string.js';
import { COUNT } from './scripts.js';
import { type Servers, serversAt } from './servers.js';

/** Limit for a counter: an answer takes one millisecond, and a process can count alone. */
const COUNT_MS = 250;

/** Opens counters of the log with that identity. Does not wait for Redis: `add` throws while it is away. */
export const openRedisCounters = (place: RedisConnectionString, logIdentity: string): SharedCounters =>
  new RedisCounters(
    serversAt(
      place,
      serverCheck(place.mode.kind, () => undefined),
    ),
    new Keys(logIdentity),
  );

class RedisCounters implements SharedCounters {
  constructor(
    private readonly servers: Servers,
    private readonly keys: Keys,
  ) {}

  add(name: string, amount: number, seconds: number) {
    const slot = this.keys.slotOf(partitionOf(name));
    const args = ['1', this.keys.counter(name), String(amount), String(seconds * 1_000)];
    return withDeadline(COUNT_MS, async (deadline) => {
      // The whole script: it is shorter than its hash and the fallback where the server does not have it.
      const answer = await this.servers.send(slot, ['EVAL', COUNT.body, ...args], deadline);
      const [total, msLeft] = answer as [number, number];
      return { total, msLeft };
    });
  }

  close(): Promise<void> {
    return this.servers.close();
  }
}

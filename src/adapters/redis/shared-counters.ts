import { partitionOf } from '../../ports/read-model.js';
import { type SharedCounters } from '../../ports/shared-counters.js';
import { Deadline } from './deadline.js';
import { serverCheck } from './server-check.js';
import { Keys } from './keys.js';
import { type RedisConnectionString } from './connection-string.js';
import { COUNT } from './scripts.js';
import { type Servers, serversAt } from './servers.js';

/** How long a request waits for a counter, in milliseconds: it takes one, and whoever asks can count by itself. */
const COUNT_MS = 250;

/** Opens counters of the log with that identity. It does not wait for Redis: until it is there, `add` throws. */
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

  async add(name: string, amount: number, seconds: number) {
    const slot = this.keys.slotOf(partitionOf(name));
    const args = ['1', this.keys.counter(name), String(amount), String(seconds * 1_000)];
    const deadline = new Deadline(COUNT_MS, 'Redis');
    try {
      // The whole script each time: it is shorter than what asking for it by its hash, and falling back, would add here.
      const answer = await this.servers.send(slot, ['EVAL', COUNT.body, ...args], deadline);
      const [total, msLeft] = answer as [number, number];
      return { total, msLeft };
    } finally {
      deadline.end();
    }
  }

  close(): Promise<void> {
    return this.servers.close();
  }
}

import { execFileSync } from 'node:child_process';
import { FakeProcess } from './eventstore/fake-event-store-process.js';
import { ensureRedis, RedisServer } from './redis-server.js';

/** Stopped when all tests have run. */
const started: (() => Promise<void>)[] = [];

/**
 * Jest's global set-up: the servers that tests share, and a line that says which ones. A Redis from TEST_REDIS_URL
 * or one of our own; an EventStoreDB from TEST_EVENTSTORE_URL or the fake EventStoreDB, as a process of its own. Tests that
 * stop, kill or configure a server start theirs.
 */
export default async function setUp(): Promise<void> {
  ensureRedis();
  process.env.PLANTS_TEST_REDIS = process.env.TEST_REDIS_URL ?? (await startRedis());
  process.env.PLANTS_TEST_EVENTSTORE = process.env.TEST_EVENTSTORE_URL ?? (await startFake());
  const redis = process.env.TEST_REDIS_URL
    ? 'the Redis of TEST_REDIS_URL'
    : `Redis ${/v=([\d.]+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))?.[1] ?? ''}`;
  const eventStore = process.env.TEST_EVENTSTORE_URL
    ? 'the EventStoreDB of TEST_EVENTSTORE_URL'
    : 'the fake EventStoreDB (set TEST_EVENTSTORE_URL to run on a real one)';
  process.stdout.write(`\nThese tests use SQLite, ${redis} and ${eventStore}.\n`);
}

/** Jest's global tear-down. */
export const tearDown = async (): Promise<void> => {
  for (const stop of started.splice(0)) await stop();
};

const startRedis = async (): Promise<string> => {
  const server = await RedisServer.start();
  started.push(() => server.stop());
  return server.url;
};

const startFake = async (): Promise<string> => {
  const fake = await FakeProcess.start();
  started.push(() => fake.stop());
  return fake.url;
};

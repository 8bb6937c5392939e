/**
 * The fake EventStoreDB as a process of its own, on PORT (default any free one): prints its connection string as one line and
 * runs until it is told to stop.
 */
import { FakeEventStore } from './fake-event-store.js';

const fake = await FakeEventStore.start({ port: Number(process.env.PORT ?? 0) });
process.stdout.write(`${fake.url}\n`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    fake.stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}

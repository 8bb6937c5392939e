/**
 * The stand-in as a process of its own, on PORT (default any free one): prints its connection string as one line and
 * runs until it is told to stop.
 */
import { StandIn } from './stand-in.js';

const standIn = await StandIn.start({ port: Number(process.env.PORT ?? 0) });
process.stdout.write(`${standIn.url}\n`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    standIn.stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}

import { AlteredRun } from './altered-run.js';

// The long form of test/unit/audit/altered-log.spec.ts: altered-main.js [alterations] [events] [seed]. It is no Jest
// test, since the same code takes half as long again in Jest.
const [alterations = 500, events = 100_000, seed = 20_261_122] = process.argv.slice(2).map(Number);

/** Of so many alterations one is looked for in bundles of all events, too. */
const WHOLE_EVERY = 25;

/** And one by the commands. */
const COMMANDS_EVERY = 110;

const began = performance.now();
const run = await AlteredRun.of(events, seed);
const ways = new Map<string, number>();
try {
  for (let nth = 0; nth < alterations; nth++) {
    const way = await run.next({ whole: nth % WHOLE_EVERY === 0, commands: nth % COMMANDS_EVERY === 0 });
    ways.set(way, (ways.get(way) ?? 0) + 1);
    const minutes = ((performance.now() - began) / 60_000).toFixed(1);
    process.stderr.write(`${nth + 1} of ${alterations}, each was seen, ${minutes} min\n`);
  }
  for (const [way, times] of ways) process.stdout.write(`${String(times).padStart(5)} times  ${way}\n`);
} finally {
  await run.remove();
}

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { KINDS, statesOf } from './kinds.js';
import { faultOf, Matrix, type Outcome } from './matrix.js';
import { tableOf } from './table.js';

// The long form of test/unit/audit/altered-files.spec.ts: main.js [times] [events] [processes] [seed]. `times`: how often
// each kind is altered in each state. It is no Jest test, since the same code takes half as long again in Jest.
const [times = 7, events = 20_000, processes = 1, seed = 20_261_122, part = NaN] = process.argv
  .slice(2)
  .map(Number);

/** Each kind at least so often, also where it has two states only. */
const LEAST = 20;

/** Tries every kind whose turn it is in this process, in each of its states. */
const work = async (send: (outcome: Outcome) => void): Promise<void> => {
  const matrix = await Matrix.of({ events, seed: seed + part, recheckMs: 1_000 });
  try {
    for (const [nth, [kind, ways]] of Object.entries(KINDS).entries()) {
      if (nth % processes !== part) continue;
      const states = statesOf(kind);
      const each = times < LEAST / 3 ? times : Math.max(times, Math.ceil(LEAST / states.length));
      for (const [state, name] of states.entries())
        for (let time = 0; time < each; time++)
          // One of each kind is looked for by the real service, in a process of its own. So is what both files were
          // restored to: SQLite's handles outlive an auditor of this process.
          send(
            await matrix.one(
              ways[(time + state) % ways.length] ?? '',
              name,
              (time === 0 && nth % states.length === state) ||
                kind === 'events.db and tree.db from a snapshot',
            ),
          );
    }
  } finally {
    await matrix.remove();
  }
};

if (!Number.isNaN(part)) {
  await work((outcome) => process.send?.(outcome));
  process.disconnect();
} else {
  const outcomes: Outcome[] = [];
  const began = performance.now();
  const children = Array.from({ length: processes }, (_, nth) =>
    fork(fileURLToPath(import.meta.url), [times, events, processes, seed, nth].map(String), {
      execArgv: ['--no-warnings'],
    }).on('message', (outcome: Outcome) => {
      outcomes.push(outcome);
      const fault = faultOf(outcome);
      const minutes = ((performance.now() - began) / 60_000).toFixed(1);
      process.stderr.write(
        `${outcomes.length}, ${minutes} min: ${fault ?? `${outcome.way}, ${outcome.state}`}\n`,
      );
    }),
  );
  const codes = await Promise.all(
    children.map(async (child) => (await once(child, 'exit'))[0] as number | null),
  );
  process.stdout.write(tableOf(outcomes));
  const faults = outcomes.map(faultOf).filter((fault) => fault !== undefined);
  for (const fault of faults) process.stdout.write(`${fault}\n`);
  process.stdout.write(`${outcomes.length} alterations, ${faults.length} not as expected\n`);
  process.exitCode = faults.length > 0 || codes.some((code) => code !== 0) ? 1 : 0;
}

/**
 * `npm run test:all`: what takes longer than `npm test`, in lanes, the quickest first.
 *
 *     npm run test:all                          every lane
 *     npm run test:all -- --list                what there is
 *     npm run test:all -- --lane crash          one lane; may be repeated
 *     npm run test:all -- --from crash          that lane and those after it
 *     npm run test:all -- --within 20           those that fit into 20 minutes and measure nothing; names the others
 *
 * The exit status is 1 where a lane failed, 2 where the options name none.
 */
import { parseArgs } from 'node:util';
import { type Lane, LANES } from './lanes.js';
import { duration, forgetFailures, type Ran, repeatFailures, run, summarize } from './run.js';

/** A lane that takes so many times its usual time is ended. */
const PATIENCE = 6;

const { values } = parseArgs({
  options: {
    list: { type: 'boolean' },
    lane: { type: 'string', multiple: true },
    from: { type: 'string' },
    within: { type: 'string' },
  },
});

const named = (name: string): Lane => {
  const lane = LANES.find((one) => one.name === name);
  if (lane) return lane;
  process.stderr.write(`test:all: there is no lane ${name}: ${LANES.map((one) => one.name).join(', ')}\n`);
  process.exit(2);
};

const chosen = values.lane?.map(named) ?? LANES.slice(values.from ? LANES.indexOf(named(values.from)) : 0);

if (values.list) {
  for (const { name, what, minutes } of chosen)
    process.stdout.write(`${name.padEnd(14)} ${String(minutes).padStart(3)} min  ${what}\n`);
  process.exit();
}

const began = performance.now();
const minutesLeft = (): number => Number(values.within ?? Infinity) - (performance.now() - began) / 60_000;

forgetFailures();
const ran: Ran[] = [];
const left: string[] = [];
for (const { name, what, minutes, measures, run: args, env } of chosen) {
  if (minutes > minutesLeft() || (measures && values.within)) {
    left.push(name);
    continue;
  }
  process.stderr.write(`\n${name}: ${what} (some ${minutes} min)\n`);
  const lane = await run(name, process.execPath, args, { env, limitMinutes: minutes * PATIENCE });
  process.stderr.write(`${name}: ${lane.passed ? 'passed' : 'FAILED'} in ${duration(lane.seconds)}\n`);
  ran.push(lane);
}

repeatFailures();
process.stderr.write('\n');
summarize(ran, (name) => `: npm run test:all -- --lane ${name}`);
if (left.length > 0) process.stderr.write(`not reached in ${values.within} minutes: ${left.join(', ')}\n`);
process.exit(ran.every(({ passed }) => passed) ? 0 : 1);

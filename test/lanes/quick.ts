/**
 * `npm test`: checks of the source and, beside them, the tests that answer soon. Says what it does, and how long each
 * part took. `npm run test:all` has the rest.
 */
import { QUICK, QUICK_TESTS } from './lanes.js';
import { duration, forgetFailures, type Ran, repeatFailures, run, summarize } from './run.js';

/** Scripts of package.json, one after the other. */
const CHECKS = ['size', 'boundaries', 'dead', 'lint'];

/** One of these parts that takes so many minutes is ended. */
const LIMIT_MINUTES = 30;

const told = ({ name, passed, seconds, output }: Ran): void => {
  if (!passed) process.stderr.write(`${output}\n`);
  process.stderr.write(`${name}: ${passed ? 'passed' : 'FAILED'} in ${duration(seconds)}\n`);
};

const checkAll = async (): Promise<Ran[]> => {
  const ran: Ran[] = [];
  for (const name of CHECKS) {
    const check = await run(name, 'npm', ['run', '--silent', name], {
      quietly: true,
      limitMinutes: LIMIT_MINUTES,
    });
    told(check);
    ran.push(check);
  }
  return ran;
};

forgetFailures();
const began = performance.now();
process.stderr.write(`${CHECKS.join(', ')} and tests (${QUICK.join(', ')}), side by side\n`);
const [checks, tests] = await Promise.all([
  checkAll(),
  run('tests', process.execPath, QUICK_TESTS, { limitMinutes: LIMIT_MINUTES }),
]);
repeatFailures();
const all = [...checks, tests];
process.stderr.write('\n');
summarize(all);
process.stderr.write(`npm test: ${duration(Math.round((performance.now() - began) / 1_000))}\n`);
process.exit(all.every(({ passed }) => passed) ? 0 : 1);

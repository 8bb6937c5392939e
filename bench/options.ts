import { parseArgs } from 'node:util';

/** What a person asked for. */
export interface Options {
  readonly help: boolean;
  readonly quick: boolean;
  readonly profile: boolean;
  /** Names of workloads; none means all. */
  readonly only: readonly string[];
  readonly json: string | undefined;
  readonly repeats: number | undefined;
}

/** The command line is wrong. The message is one line. */
export class BadUsage extends Error {
  override readonly name = 'BadUsage';
}

/** A run whose figures count has so many rounds at least. */
const FEWEST_REPEATS = 3;
const MOST_REPEATS = 100;

/** Reads the command line. Throws BadUsage. */
export const readOptions = (args: readonly string[], workloads: readonly string[]): Options => {
  const { help, quick, profile, only, json, repeat } = parse(args);
  const names = only.flatMap((list) => list.split(','));
  const unknown = names.find((name) => !workloads.includes(name));
  if (unknown !== undefined)
    throw new BadUsage(`--only must be one of ${workloads.join(', ')}, not ${JSON.stringify(unknown)}`);
  const fewest = quick ? 1 : FEWEST_REPEATS;
  const repeats = repeat === undefined ? undefined : Number(repeat);
  if (
    repeat !== undefined &&
    !(/^\d+$/.test(repeat) && Number(repeat) >= fewest && Number(repeat) <= MOST_REPEATS)
  )
    throw new BadUsage(
      `--repeat must be an integer from ${fewest} to ${MOST_REPEATS}, not ${JSON.stringify(repeat)}`,
    );
  if (json === '') throw new BadUsage('--json must name a file');
  if (profile && (names.length > 0 || json !== undefined || repeat !== undefined))
    throw new BadUsage('--profile makes profiles and no figures: it goes with --quick only');
  return { help, quick, profile, only: names, json, repeats };
};

const parse = (args: readonly string[]) => {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        quick: { type: 'boolean', default: false },
        profile: { type: 'boolean', default: false },
        only: { type: 'string', multiple: true, default: [] },
        json: { type: 'string' },
        repeat: { type: 'string' },
      },
    });
    return values;
  } catch (error) {
    const [line = ''] = (error as Error).message.split('\n');
    throw new BadUsage(`${line} (npm run bench -- --help)`);
  }
};

export const helpText = (
  workloads: readonly string[],
  contenders: Readonly<Record<string, string>>,
): string => `npm run bench -- [options]

Measures this service beside its peers and its limits, each in a process of its own, in rounds that take turns.

  --quick        goes through everything once in about three minutes: for its working, not for its figures
  --only NAMES   only these workloads, separated by commas: ${workloads.join(', ')}
  --repeat N     rounds of each workload: 3 without it, and at least 3 unless --quick
  --json FILE    where the results go as JSON; the table (.md) and the chart (.svg) stand beside it
  --profile      CPU profiles of the service under lists and creates instead, with a summary of each
  --help         this text

Contenders:
${Object.entries(contenders)
  .map(([name, what]) => `  ${name.padEnd(13)}${what}`)
  .join('\n')}

A full run without --json writes docs/bench/results.{json,md,svg}; every other one build/bench-results/.
Peers take part after npm run bench:peers, and where PostgreSQL is installed. TEST_EVENTSTORE_URL names a real log
server to use instead of the stand-in. wrk loads where it is on the PATH, else autocannon.

Exit status: 0 everything that could run worked, 1 something does not work, 2 wrong usage.
`;

import { Command, InvalidArgumentError } from 'commander';

/** The options of the command line. */
export interface Options {
  readonly quick?: true;
  /** Names of workloads; without it all. */
  readonly only?: readonly string[];
  readonly repeat?: number;
}

/** The command line, of these workloads. Its help names the contenders. */
export const commandLine = (workloads: readonly string[], contenders: Readonly<Record<string, string>>) => {
  const namesIn = (list: string, before: readonly string[] = []): string[] => {
    const names = list.split(',');
    const unknown = names.find((name) => !workloads.includes(name));
    if (unknown !== undefined) throw new InvalidArgumentError(`There is no workload ${unknown}.`);
    return [...before, ...names];
  };
  const repeatsIn = (text: string): number => {
    if (/^[1-9]\d?$/.test(text)) return Number(text);
    throw new InvalidArgumentError('It must be an integer from 1 to 99.');
  };
  return new Command('npm run bench --')
    .description(
      'Measures this service beside its peers and its limits, each in a process of its own, in turn.',
    )
    .option('--quick', 'everything once in about three minutes: for its working, not for its figures')
    .option('--only <names>', `only these workloads, with commas: ${workloads.join(', ')}`, namesIn)
    .option('--repeat <n>', 'rounds of each workload: 3 without it, and fewer are no full run', repeatsIn)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
    .addHelpText(
      'after',
      `
Contenders:
${Object.entries(contenders)
  .map(([name, what]) => `  ${name.padEnd(13)}${what}`)
  .join('\n')}

A full run writes docs/bench/results.md and .svg, every other one build/bench-results/, where all leave results.json.
Peers take part after npm run bench:peers, and where PostgreSQL is installed. TEST_EVENTSTORE_URL names a real log
server to use instead of the fake EventStoreDB. wrk makes the load (Debian: apt-get install wrk).

Exit status: 0 everything that could run worked, 1 something does not work, 2 wrong usage.`,
    );
};

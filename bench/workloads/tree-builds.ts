import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Context } from '../context.js';
import { output } from '../processes.js';
import { interleaved, type Sample } from '../round.js';
import { type TreeBuild, type TreeBuilt } from '../tree-build.js';

const TREE_BUILD = fileURLToPath(new URL('../tree-build.js', import.meta.url));

/** How long the trees of a log take to build, in seconds, and the most memory that takes: of its events, then of its state. */
export const treeBuilds = async (context: Context, log: string): Promise<void> => {
  const { stage, results, say } = context;
  const file = stage.newPath('built-tree.db');
  const memory = { events: [] as number[], state: [] as number[] };
  const built = async (part: TreeBuild['part']): Promise<Sample> => {
    const order: TreeBuild = { log, tree: file, part };
    const printed = await output(process.execPath, ['--no-warnings', TREE_BUILD, JSON.stringify(order)]);
    const { mebibytes, ...sample } = JSON.parse(printed) as TreeBuilt;
    memory[part].push(mebibytes);
    return sample;
  };
  const removed = (): void => {
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
  };
  const names = { events: 'tree of the events', state: 'state tree beside it' } as const;
  await interleaved(context, 'state-build', [
    {
      ...{ contender: names.events, unit: 's' },
      measure: () => {
        removed();
        return built('events');
      },
    },
    { contender: names.state, unit: 's', measure: () => built('state') },
  ]);
  removed();
  for (const part of ['events', 'state'] as const) {
    const values = memory[part];
    results.figures.push({ workload: 'state-build, memory', contender: names[part], unit: 'MiB', values });
    say(`${names[part]}: ${values.map((value) => value.toFixed(0)).join(', ')} MiB at most`);
  }
};

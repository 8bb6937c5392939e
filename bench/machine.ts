import { execFileSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os';
import { generatorName } from './load.js';

/** What a result says about the machine that made it: its shape, and never its name or its paths. */
export interface Machine {
  readonly cores: number;
  readonly processor: string;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
  readonly loadGenerator: string;
  /** Whether the stores of the run stand in memory: then nothing durable is slow. */
  readonly storesInMemory: boolean;
}

/** The `f_type` of Linux' file systems in memory: tmpfs and ramfs. */
const IN_MEMORY = [0x01021994, 0x858458f6];

export const machineOf = (): Machine => ({
  cores: availableParallelism(),
  processor: cpus()[0]?.model.trim() ?? 'unknown',
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  system: `${process.platform} ${process.arch}`,
  node: process.version,
  loadGenerator: generatorName(),
  storesInMemory: IN_MEMORY.includes(statfsSync(tmpdir()).type),
});

/** The first line that a program prints about itself, or undefined where there is no such program. */
export const versionOf = (program: string, args: readonly string[] = ['--version']): string | undefined => {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
      .split('\n')[0]
      ?.trim();
  } catch {
    return undefined;
  }
};

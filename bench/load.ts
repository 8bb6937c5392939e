import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Broken, output } from './processes.js';

/** What is asked: plants are created and deleted by id, lists are those of a path; mix lists nine times of ten. */
export type LoadKind = 'create' | 'list' | 'delete' | 'mix';

/** Ids from the first to the last, both included. */
export interface IdRange {
  readonly first: number;
  readonly last: number;
}

export interface Load {
  readonly kind: LoadKind;
  readonly url: string;
  /** Of lists: path and query. */
  readonly path: string;
  /** Which plants are created or deleted, in this order. */
  readonly ids: readonly IdRange[];
  /** A file with one Authorization value a line; the plant with an id belongs to the line id modulo lines. */
  readonly authorizations: string;
  /**
   * A file with numbers of such lines, from 1, one a line: whose request each one is, and again from the beginning.
   * Without it, lists are each line's in turn, and a plant belongs to a line by its id.
   */
  readonly turns?: string;
  /** How many requests came before, so that turns go on where an earlier load ended. */
  readonly from?: number;
  readonly connections: number;
  readonly seconds: number;
}

/** What came of a load. Latencies are in milliseconds, of a closed loop: who waits does not ask meanwhile. */
export interface Loaded {
  readonly requests: number;
  readonly seconds: number;
  /** Requests without an answer, and answers that are not 2xx. */
  readonly failed: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
}

/** In the source tree: the compiler leaves it there. */
const WRK_SCRIPT = fileURLToPath(new URL('../../bench/wrk.lua', import.meta.url));
const AUTOCANNON = fileURLToPath(new URL('./autocannon-load.js', import.meta.url));

/** Longer than the slowest peer takes with the most connections, in seconds: wrk's own 2 would count as failures. */
export const TIMEOUT_SECONDS = 30;

/** wrk where it is on the PATH: it takes a tenth of the processor time that autocannon takes. */
const usesWrk = spawnSync('wrk', ['--version'], { stdio: 'ignore' }).error === undefined;

export const generatorName = (): string => {
  if (!usesWrk) return 'autocannon (in a process of its own)';
  const [, version = ''] = /^wrk (\S+)/m.exec(String(spawnSync('wrk', ['--version']).stdout)) ?? [];
  return `wrk ${version}`.trim();
};

/** Loads a server from another process. Throws Error where the load itself fails. */
export const run = async (load: Load): Promise<Loaded> => {
  const printed = usesWrk
    ? await output('wrk', wrkArguments(load))
    : await output(process.execPath, ['--no-warnings', AUTOCANNON, JSON.stringify(load)]);
  const [, result] = /^RESULT (.*)$/m.exec(printed) ?? [];
  if (result === undefined) throw new Broken(`the load generator said no result: ${printed.slice(-500)}`);
  return JSON.parse(result) as Loaded;
};

const wrkArguments = (load: Load): string[] => [
  ...['-t', '1', '-c', `${load.connections}`, '-d', `${load.seconds}s`, '--timeout', `${TIMEOUT_SECONDS}s`],
  ...['-s', WRK_SCRIPT, load.url, '--', load.kind, load.path],
  load.ids.map(({ first, last }) => `${first}-${last}`).join(','),
  load.authorizations,
  load.turns ?? '-',
  `${load.from ?? 0}`,
];

import { fileURLToPath } from 'node:url';
import { NotRun, output, versionOf } from './processes.js';

export interface Load {
  /** Plants are created and deleted by id, lists are those of a path; mix lists nine times of ten. */
  readonly kind: 'create' | 'list' | 'delete' | 'mix';
  readonly url: string;
  /** Of lists: path and query. */
  readonly path: string;
  /** The first plant that is created or deleted; ids count up from there. */
  readonly firstId: number;
  /** A file with one Authorization value a line; the plant with an id belongs to the line id modulo lines. */
  readonly authorizations: string;
  /**
   * A file with numbers of such lines, from 1, one a line: whose request each one is, and again from the beginning.
   * Without it, lists are each line's in turn, and a plant belongs to a line by its id.
   */
  readonly turns?: string | undefined;
  /** Turns, or lines, that are left out at the beginning. */
  readonly from?: number;
  readonly connections: number;
  readonly seconds: number;
}

/** The result of a load. Latencies are in milliseconds, of a closed loop: a connection waits for its answer. */
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
const SCRIPT = fileURLToPath(new URL('../../bench/wrk.lua', import.meta.url));

/** Longer than the slowest peer takes with the most connections: wrk's own 2 s would count as failures. */
const TIMEOUT = '30s';

/** It takes a tenth of the processor time of what there is for Node, which would mostly measure itself. */
export const loadGenerator = versionOf('wrk')?.split(' ', 2).join(' ');

/** Loads a server from another process. Throws NotRun without wrk, and Error where the load itself fails. */
export const run = async (load: Load): Promise<Loaded> => {
  if (loadGenerator === undefined) throw new NotRun('wrk is not on the PATH (Debian: apt-get install wrk)');
  const printed = await output('wrk', [
    ...['-t', '1', '-c', `${load.connections}`, '-d', `${load.seconds}s`, '--timeout', TIMEOUT],
    ...['-s', SCRIPT, load.url, '--', load.kind, load.path, `${load.firstId}`, load.authorizations],
    ...[load.turns ?? '-', `${load.from ?? 0}`],
  ]);
  const [, result] = /^RESULT (.*)$/m.exec(printed) ?? [];
  if (result === undefined) throw new Error(`the load generator said no result: ${printed.slice(-500)}`);
  return JSON.parse(result) as Loaded;
};

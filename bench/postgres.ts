import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { versionOf } from './machine.js';
import { freePort, launch, NotRun, output, type Running, stop, until } from './processes.js';

/** Where Debian keeps the programs of each version: they are not on the PATH. */
const DEBIAN = '/usr/lib/postgresql';

/** What is needed of it; a folder of the PATH may have some of them only. */
const PROGRAMS = ['initdb', 'postgres', 'pg_isready', 'createdb', 'psql'];

/** A private PostgreSQL with the settings that it comes with, fsync included. */
export interface Postgres {
  readonly pid: number;
  readonly version: string;
  /** Makes a database, and gives the URL that a client takes. */
  database(name: string): Promise<string>;
  /** Runs a file of SQL, as psql takes it, in a database. */
  run(database: string, file: string): Promise<void>;
  stop(): Promise<void>;
}

/** Starts one in a folder of its own. Throws NotRun where its programs are missing. */
export const startPostgres = async (parent: string): Promise<Postgres> => {
  const programs = programFolder();
  const folder = join(parent, 'postgres');
  mkdirSync(folder);
  const owner = unprivileged();
  if (owner) {
    chmodSync(parent, 0o711); // it may pass through
    chownSync(folder, owner.uid, owner.gid);
  }
  const options = { ...owner, cwd: folder };
  const data = join(folder, 'data');
  await output(
    join(programs, 'initdb'),
    ['-D', data, '-U', 'bench', '-A', 'trust', '-E', 'UTF8', '--no-locale'],
    options,
  );
  const port = await freePort();
  const server = await launch(
    join(programs, 'postgres'),
    ['-D', data, '-p', `${port}`, '-h', '127.0.0.1', '-k', folder],
    options,
    'SIGQUIT',
  );
  const connection = ['-h', '127.0.0.1', '-p', `${port}`, '-U', 'bench'];
  await until('PostgreSQL answers', server, () => isReady(join(programs, 'pg_isready'), connection));
  return {
    pid: server.pid,
    version: versionOf(join(programs, 'postgres')) ?? 'PostgreSQL',
    database: async (name) => {
      await output(join(programs, 'createdb'), [...connection, name], options);
      return `postgres://bench@127.0.0.1:${port}/${name}`;
    },
    run: async (database, file) => {
      const asScript = ['-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', database, '-f', file];
      await output(join(programs, 'psql'), [...connection, ...asScript]);
    },
    stop: () => stopFast(server),
  };
};

/** SIGINT is its "fast shutdown": it does not wait for clients. */
const stopFast = (server: Running): Promise<void> => stop(server, 'SIGINT');

const isReady = (program: string, connection: readonly string[]): Promise<boolean> =>
  output(program, connection).then(
    () => true,
    () => false,
  );

const programFolder = (): string => {
  const versions = existsSync(DEBIAN)
    ? readdirSync(DEBIAN).sort((one, other) => Number(other) - Number(one))
    : [];
  const folders = [
    ...(process.env.PATH ?? '').split(delimiter),
    ...versions.map((version) => join(DEBIAN, version, 'bin')),
  ];
  const found = folders.find((folder) => PROGRAMS.every((program) => existsSync(join(folder, program))));
  if (found === undefined)
    throw new NotRun('PostgreSQL is not installed (Debian: apt-get install postgresql)');
  return found;
};

/** PostgreSQL refuses to run as root. */
const unprivileged = (): { readonly uid: number; readonly gid: number } | undefined => {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ['postgres', 'nobody']) {
    const ids = ['-u', '-g'].map((flag) => idOf(name, flag));
    const [uid, gid] = ids;
    if (uid !== undefined && gid !== undefined) return { uid, gid };
  }
  throw new NotRun('PostgreSQL does not run as root, and there is no other user');
};

const idOf = (user: string, flag: string): number | undefined => {
  try {
    return Number(
      execFileSync('id', [flag, user], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
    );
  } catch {
    return undefined;
  }
};

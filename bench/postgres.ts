import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, launch, NotRun, output, succeeds, until, versionOf } from './processes.js';

/** Debian's folder for the programs of each version: they are not on the PATH. */
const DEBIAN = '/usr/lib/postgresql';

/**
 * Starts a private PostgreSQL in a folder of its own, with the settings that it comes with, fsync included. Throws NotRun
 * where its programs are missing.
 */
export const startPostgres = async (parent: string) => {
  const program = programs();
  const version = versionOf(program('postgres'));
  if (version === undefined)
    throw new NotRun('PostgreSQL is not installed (Debian: apt-get install postgresql)');
  const folder = join(parent, 'postgres');
  mkdirSync(folder);
  const user = unprivileged();
  if (user) chownSync(folder, user.uid, user.gid);
  const options = { ...user, cwd: folder };
  const cluster = ['-D', join(folder, 'data')];
  const initial = [...cluster, '-U', 'bench', '-A', 'trust', '-E', 'UTF8', '--no-locale'];
  await output(program('initdb'), initial, options);
  const port = await freePort();
  const listen = [...cluster, '-p', `${port}`, '-h', '127.0.0.1', '-k', folder];
  const server = await launch(program('postgres'), listen, options);
  const connection = ['-h', '127.0.0.1', '-p', `${port}`, '-U', 'bench'];
  await until('PostgreSQL answers', server, () => succeeds(program('pg_isready'), connection));
  return {
    process: server,
    version,
    /** Makes a database, and gives the URL that a client takes. */
    database: async (name: string): Promise<string> => {
      await output(program('createdb'), [...connection, name], options);
      return `postgres://bench@127.0.0.1:${port}/${name}`;
    },
    /** Runs a file of SQL, as psql takes it, in a database. */
    run: async (database: string, file: string): Promise<void> => {
      const script = ['-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', database, '-f', file];
      await output(program('psql'), [...connection, ...script]);
    },
  };
};

/** Finds the programs of Debian's newest version, or else those of the PATH. */
const programs = (): ((name: string) => string) => {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).map(Number) : [];
  if (versions.length === 0) return (name) => name;
  return (name) => join(DEBIAN, `${Math.max(...versions)}`, 'bin', name);
};

/** PostgreSQL refuses to run as root: Debian's package has made a user for it. */
const unprivileged = (): { readonly uid: number; readonly gid: number } | undefined => {
  if (process.getuid?.() !== 0) return undefined;
  const [uid = 0, gid = 0] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'postgres'])));
  return { uid, gid };
};

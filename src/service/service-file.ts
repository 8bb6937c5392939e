import { readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { type EventLogLocation } from './store-locations.js';
import { replaceFile } from '../runtime/new-file.js';
import { LogInUse } from '../log/event-log.js';
import { StartError } from './start-error.js';

/** The process that serves a DATA_DIR, as it says itself. */
const RunningService = z.object({
  url: z.string(),
  pid: z.int(),
  /** The file of its event log. */
  log: z.string(),
});

export type RunningService = Readonly<z.infer<typeof RunningService>>;

const fileIn = (dataDir: string): string => join(dataDir, 'service.json');

/** Writes into DATA_DIR where this process listens, for commands. Throws an error of the file system. */
export const announceService = (dataDir: string, url: string, logFile: string): void => {
  const running: RunningService = { url, pid: process.pid, log: resolve(logFile) };
  replaceFile(fileIn(dataDir), `${JSON.stringify(running)}\n`);
};

/** Takes back what this process has said; what another one has said since stays. */
export const withdrawService = (dataDir: string): void => {
  if (announced(dataDir)?.pid === process.pid) rmSync(fileIn(dataDir), { force: true });
};

/**
 * The service that DATA_DIR names, runs on this machine and writes this log. One that was killed leaves its file behind,
 * and a command may be given another log.
 */
export const runningService = (dataDir: string, logFile: string): RunningService | undefined => {
  const found = announced(dataDir);
  return found?.log === resolve(logFile) && isAlive(found.pid) ? found : undefined;
};

/**
 * Does what makes this process the owner of the log of the settings. Throws StartError, in one line, where another
 * process is: with its number and address, and with `otherwise`, what may be done but to stop it.
 */
export const asOwner = async <T>(
  { dataDir, eventLog }: { readonly dataDir: string; readonly eventLog: EventLogLocation },
  otherwise: string,
  work: () => Promise<T>,
): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof LogInUse) || eventLog.kind !== 'sqlite') throw error;
    const owner = runningService(dataDir, eventLog.file);
    const who = owner
      ? `process ${owner.pid} at ${owner.url}: stop it first`
      : 'another process, which is starting, stopping or carrying out a command: wait for it, or stop it';
    throw new StartError(`${eventLog.file} is in use by ${who}, or ${otherwise}`);
  }
};

const announced = (dataDir: string): RunningService | undefined => {
  try {
    return RunningService.safeParse(JSON.parse(readFileSync(fileIn(dataDir), 'utf8'))).data;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
};

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // it runs as another user
  }
};

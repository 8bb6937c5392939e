import { readFileSync } from 'node:fs';

/**
 * How many files and connections together a service needs to be allowed to have open: Node opens up to 300 files at
 * once while it loads the service, and 200 remain for the stores and for clients.
 */
export const OPEN_FILES_NEEDED = 512;

/**
 * How many files and connections together this process may have open (RLIMIT_NOFILE); Node raises it to the hard limit
 * at its start. Undefined where only Linux would say, or where there is no limit.
 */
export const openFilesLimit = (): number | undefined => {
  let limits: string;
  try {
    limits = readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return undefined;
  }
  const [, soft] = /^Max open files +(\d+) /m.exec(limits) ?? [];
  return soft === undefined ? undefined : Number(soft);
};

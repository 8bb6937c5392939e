import { readFileSync } from 'node:fs';

/**
 * The open files and connections that a service needs: Node opens up to 300 files at
 * once while it loads the service, and 200 remain for the stores and for clients.
 */
export const OPEN_FILES_NEEDED = 512;

/**
 * The limit of open files and connections of this process (RLIMIT_NOFILE), which Node raises to the hard limit at its
 * start. Undefined where there is none, and on systems other than Linux.
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

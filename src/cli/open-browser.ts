import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

/** The time that what opens the browser may take, in milliseconds; one that runs for longer is the browser itself. */
const OPEN_MS = 3_000;

/** The time that the browser has to read the file, in milliseconds. */
const READ_MS = 5_000;

/** The program that opens an address on a system. Undefined where there is none, as over SSH. */
export const opener = (
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform = process.platform,
): string | undefined => {
  if (env.BROWSER) return env.BROWSER;
  if (platform === 'darwin') return 'open';
  if (platform === 'win32') return 'explorer.exe';
  return env.DISPLAY || env.WAYLAND_DISPLAY ? 'xdg-open' : undefined;
};

/**
 * Opens an address in the browser of this machine, and tells whether that could be done. The address is in a file that
 * this user alone can read, not among the arguments of a process, which every user of the machine can see: it holds a
 * token.
 */
export const openBrowser = async (
  address: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<boolean> => {
  const program = opener(env);
  if (program === undefined) return false;
  const folder = await mkdtemp(join(tmpdir(), 'plants-console-'));
  try {
    const file = join(folder, 'console.html');
    await writeFile(file, redirect(address), { mode: 0o600 });
    const child = spawn(program, [pathToFileURL(file).href], { detached: true, stdio: 'ignore' });
    if (await hasFailed(child)) return false;
    child.unref();
    await delay(READ_MS);
    return true;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

/** Tells whether a program could not be started, or ends with a failure. */
const hasFailed = async (child: ChildProcess): Promise<boolean> => {
  try {
    const [status] = (await once(child, 'exit', { signal: AbortSignal.timeout(OPEN_MS) })) as [number | null];
    return status !== 0;
  } catch (error) {
    return !(error instanceof Error && error.name === 'AbortError');
  }
};

/** A page that leads to an address at once, and leaves nothing in its place. */
const redirect = (address: string): string => {
  const escaped = address.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
  return `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Plants</title><meta http-equiv="refresh" content="0; url=${escaped}"><a href="${escaped}">The console</a>\n`;
};

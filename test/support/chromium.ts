import { execFileSync } from 'node:child_process';
import { type Browser, chromium } from 'playwright-core';

/** The browser's names on the PATH, in the order in which they are tried. */
const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'] as const;

const found = (): string | undefined =>
  PROGRAMS.find((program) => {
    try {
      execFileSync(program, ['--version'], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });

/**
 * The path of a Chromium: one on the PATH, else Debian's package, which this installs where it may. Undefined where it may
 * not; then it says so, since tests in the browser are left out.
 */
export const ensureChromium = (): string | undefined => {
  const installed = found() ?? install();
  if (installed !== undefined)
    return execFileSync('sh', ['-c', `command -v ${installed}`], { encoding: 'utf8' }).trim();
  process.stderr.write(
    '\nNO BROWSER: the tests of the console are SKIPPED. Install Chromium, so that it is on the PATH (Debian: apt-get install chromium)\n\n',
  );
  return undefined;
};

/** Starts the browser at this path, without a window. */
export const launchChromium = (executablePath: string): Promise<Browser> => {
  // Root has no sandbox of Chromium's.
  const args = ['--disable-dev-shm-usage', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])];
  return chromium.launch({ executablePath, args });
};

const install = (): string | undefined => {
  if (process.getuid?.() !== 0) return undefined;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  try {
    execFileSync('apt-get', ['update', '-qq'], { env, stdio: 'ignore' });
    execFileSync('apt-get', ['install', '-qq', '--no-install-recommends', 'chromium'], {
      env,
      stdio: 'ignore',
    });
  } catch {
    return undefined;
  }
  return found();
};

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

/** The command as users start it: it loads what `npm run build` made, and what ships. */
export const CLI = fileURLToPath(new URL('../../../bin/plants.js', import.meta.url));

/** Runs `plants` with these arguments and settings until it ends. */
export const runCli = async (
  arguments_: readonly string[],
  settings: Readonly<Record<string, string>>,
): Promise<{ status: number | null; stdout: string; stderr: string }> => {
  const { NODE_V8_COVERAGE: coverage, PATH = '' } = process.env;
  const child = spawn(process.execPath, ['--no-warnings', CLI, ...arguments_], {
    env: { PATH, ...(coverage === undefined ? {} : { NODE_V8_COVERAGE: coverage }), ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { status: child.exitCode, stdout, stderr };
};

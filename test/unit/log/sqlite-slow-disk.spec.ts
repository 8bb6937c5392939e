import { describe, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { whyNoStrace } from '../../simulation/strace.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { type SlowDiskReport } from '../../support/slow-disk-child.js';

const execute = promisify(execFile);
const CHILD = fileURLToPath(new URL('../../support/slow-disk-child.js', import.meta.url));

const noStrace = whyNoStrace();
if (noStrace !== undefined) process.stdout.write(`SLOW DISKS ARE NOT TESTED: ${noStrace}\n`);

describe('an event log on a slow disk', () => {
  const folder = temporaryFolder();

  /** A process whose syncs take `ms` longer. */
  const onSlowDisk = async (ms: number, deadlineMs: number): Promise<SlowDiskReport> => {
    const slow = ['-f', '--seccomp-bpf', '-qq', '-o', '/dev/null', '-e', 'trace=fdatasync'];
    const inject = `inject=fdatasync:delay_enter=${ms * 1_000}`;
    const child = [
      process.execPath,
      '--no-warnings',
      CHILD,
      join(folder, `${ms}`, 'events.db'),
      `${deadlineMs}`,
    ];
    const { stdout } = await execute('strace', [...slow, '-e', inject, ...child]);
    return JSON.parse(stdout) as SlowDiskReport;
  };

  (noStrace === undefined ? it : it.skip)(
    'holds up the event loop for one sync; from then on it goes on, and what is late is not acknowledged',
    async () => {
      const { turns, late, states, written } = await onSlowDisk(500, 200);
      const [held = 0, free = 0] = turns;
      expect(free).toBeGreaterThan(10 * held);
      expect(late).toEqual(['OutcomeUnknown', 'LogUnavailable']);
      expect(states).toEqual(['failing', 'ok']);
      expect(written).toBe(1);
    },
  );
});

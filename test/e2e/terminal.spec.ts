import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { plantStream } from '../../src/domain/stream.js';
import { CliProcess } from '../support/cli-process.js';
import { runCli } from '../support/http-cli.js';
import { sampleMetadata } from '../support/log-events.js';
import { served } from '../support/http-client.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** True if script(1) is there, which gives a command a terminal. */
const TERMINALS = spawnSync('script', ['--version']).status === 0;

const PLANTS = 5;

/** A command, the arguments of one run, and what it says in the end. */
interface Run {
  readonly command: string;
  readonly args: () => readonly string[];
  readonly says: RegExp;
  /** True if it shows a progress bar on a terminal. */
  readonly progress?: true;
  /** Its output without a terminal, where that differs. */
  readonly piped?: RegExp;
}

describe('each command, on a terminal and for a script', () => {
  const { service } = served();
  let folder: string;
  let backup: string;

  const RUNS: readonly Run[] = [
    { command: 'token', args: () => ['--owner', 'alice'], says: /^[\w-]+\.[\w-]+\.[\w-]+$/m },
    { command: 'status', args: () => [], says: /^all is well$/m },
    { command: 'verify', args: () => [], says: /^the lists are the fold of the log/m, progress: true },
    { command: 'rebuild', args: () => ['--rate', '5'], says: /verified and promoted/, progress: true },
    { command: 'rollback', args: () => [], says: /^lists are answered from generation \d+ again$/m },
    {
      command: 'copy',
      args: () => ['--from', `sqlite:${service.dataDir}/events.db`, '--to', `sqlite:${newFile()}`],
      says: /^copied \d+ events .* compared one by one$/m,
      progress: true,
    },
    { command: 'backup', args: () => ['--to', newFile()], says: /\d+ events/, progress: true },
    {
      command: 'history',
      args: () => ['--owner', 'alice', '--plant', '1'],
      says: /PlantCreated/,
      piped: /^\{.*"specversion":"1\.0".*\}$/m,
    },
    { command: 'audit-key', args: () => [], says: /^[\w.:/-]+\+[0-9a-f]{8}\+[\w+/]+=*$/m },
    { command: 'audit-lift', args: () => ['--reason', 'to see it'], says: /no alarm/ },
    { command: 'completion', args: () => ['bash'], says: /complete/ },
  ];

  const newFile = (): string => join(folder, `${randomUUID()}.db`);

  beforeAll(async () => {
    folder = temporaryFolder();
    await service.writing(async (log) => {
      for (let id = 1; id <= PLANTS; id++) {
        const data = { id, name: `Monstera ${id}`, tag: '' };
        const metadata = sampleMetadata({ actor: { sub: 'alice' } });
        const event = { id: randomUUID(), type: 'PlantCreated', data, metadata };
        await log.append(plantStream('alice', id), 'none', [event]);
      }
    });
    backup = newFile();
    expect(await runCli(['backup', '--to', backup], service.env)).toMatchObject({ status: 0 });
  });
  afterEach(() => {
    CliProcess.killAll();
  });

  it.each(RUNS)('plants $command speaks plainly to a script', async ({ command, args, says, piped }) => {
    const { status, stdout, stderr } = await runCli([command, ...args()], service.env);
    expect({ status, stderr: stderr.replaceAll(/^\w+: .*(\d\/s|\d%).*\n/gm, '') }).toEqual({
      status: 0,
      stderr: command === 'rebuild' ? expect.stringContaining('requested') : '',
    });
    expect(stdout).toMatch(piped ?? says);
    expect(stdout + stderr).not.toContain('\x1b');
  });

  const onTerminal = TERMINALS ? it : it.skip;

  onTerminal.each(RUNS)('plants $command speaks to people', async ({ command, args, says, progress }) => {
    const running = CliProcess.onTerminal([command, ...args()], service.env);
    const status = await running.ended();
    const text = running.stdout.replaceAll('\r\n', '\n');
    expect({ status, text }).toEqual({ status: 0, text: expect.stringMatching(says) as unknown });
    if (progress) expect(text).toMatch(/\x1b\[.*(\d\/s|\d%)/);
    expect(text).not.toMatch(/^\{"/m);
  });

  onTerminal('plants serve logs for people there, and ends by Ctrl-C', async () => {
    const env = { DATA_DIR: temporaryFolder(), PORT: '0' };
    const serving = CliProcess.onTerminal(['serve'], env);
    await serving.says(/The API is described at/);
    // Both before Ctrl-C: for it the kernel discards what was written to a terminal and not yet read (termios(3), NOFLSH).
    await serving.says(/INFO.*listening on http/);
    serving.type('\x03');
    expect(await serving.ended()).toBe(0);
    expect(serving.stdout).toMatch(/INFO.*stopped/);
  });

  it.each(['piped', ...(TERMINALS ? ['on a terminal'] : [])])('plants restore works %s', async (how) => {
    const env = { DATA_DIR: temporaryFolder() };
    const args = ['restore', '--from', backup];
    const running = how === 'piped' ? CliProcess.piped(args, env) : CliProcess.onTerminal(args, env);
    expect({ status: await running.ended(), text: running.stdout }).toEqual({
      status: 0,
      text: expect.stringMatching(/\d+ events/) as unknown,
    });
    expect(readFileSync(join(env.DATA_DIR, 'events.db')).length).toBeGreaterThan(0);
  });

  it('completes commands and options for a shell', async () => {
    const complete = async (...words: string[]): Promise<string> =>
      (await runCli(['complete', '--', ...words], service.env)).stdout;
    expect(await complete('re')).toMatch(/^rebuild\t.*\nrestore\t/m);
    expect(await complete('rebuild', '--')).toMatch(/^--dry-run\t/m);
  });
});

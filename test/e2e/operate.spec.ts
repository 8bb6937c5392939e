import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type SystemStatus } from '../../src/operations/system-status.js';
import { plantStream } from '../../src/domain/stream.js';
import { openEventLog } from '../../src/service/stores.js';
import { CliProcess } from '../support/cli-process.js';
import { damageLists } from '../support/damaged-lists.js';
import { known } from '../support/domain-model.js';
import { nextPage } from '../support/history-client.js';
import { runCli } from '../support/http-cli.js';
import { type Answer, served } from '../support/http-client.js';
import { newEvent } from '../support/log-events.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { STORES } from '../support/stores-of-this-run.js';
import { TcpProxy } from '../support/tcp-proxy.js';

/** True if script(1) is there, which gives a command a terminal. */
const TERMINALS = spawnSync('script', ['--version']).status === 0;

const PLANTS = 200;

/** Tests that do not depend on the stores run once, and on a server that TEST_EVENTSTORE_URL names. */
const embeddedOnly = STORES === 'embedded' || process.env.TEST_EVENTSTORE_URL ? it : it.skip;

describe('the commands of operators, beside a running service', () => {
  /** A name that is unique on a shared server. */
  const owner = `owner ${randomUUID()}`;
  const http = served();
  const { service } = http;
  let token: string;

  const plants = (...args: string[]) => runCli(args, service.env);

  const json = async <Result>(...args: string[]): Promise<Result & { readonly exit: number | null }> => {
    const { status, stdout, stderr } = await plants(...args, '--json');
    if (stdout === '') throw new Error(`no answer: ${stderr}`);
    return { ...(JSON.parse(stdout) as Result), exit: status };
  };

  /** Once everything has answered in its second. */
  const status = async () => {
    for (;;) {
      const found = await json<SystemStatus>('status');
      if (found.unanswered.length === 0) return found;
    }
  };

  /** Watches until it is so. The exit status is that of the last status, which may come after the Ctrl-C. */
  const statusOnce = async (so: (status: SystemStatus) => boolean): Promise<SystemStatus> => {
    const watching = CliProcess.piped(['status', '--watch', '--json'], service.env);
    let found: SystemStatus | undefined;
    let last: SystemStatus | undefined;
    for await (const line of watching.lines()) {
      last = JSON.parse(line) as SystemStatus;
      if (found || !so(last)) continue;
      found = last;
      watching.signal('SIGINT');
    }
    const exit = await watching.ended();
    if (!found) throw new Error(`it ended: ${watching.stderr}`);
    expect([exit, last?.problems]).toEqual([last?.problems.length === 0 ? 0 : 1, last?.problems]);
    return found;
  };

  /** Expects the exit status that the last painted table stands for. */
  const expectExitOfLast = async (watching: CliProcess, tables: RegExp): Promise<void> => {
    const exit = await watching.ended();
    const [begin = ''] = watching.stdout.match(tables)?.slice(-1) ?? [];
    expect([begin, exit]).toEqual([begin, begin.endsWith('all is well') ? 0 : 1]);
    expect(begin).not.toBe('');
  };

  const activeOf = ({ generations }: SystemStatus): number | undefined =>
    generations.find(({ active }) => active)?.generation;

  const create = async (id: number): Promise<number> =>
    (await http.create({ id, name: `plant ${id}`, tag: '' }, { token })).status;

  const list = async (): Promise<string[]> => {
    const names: string[] = [];
    for (let path: string | undefined = '/plants?limit=1000'; path !== undefined;) {
      const answer: Answer = await http.send({ path, token });
      if (answer.status !== 200) throw new Error(`a list was refused with ${answer.status}`);
      names.push(...(JSON.parse(answer.text) as { name: string }[]).map(({ name }) => name));
      path = nextPage(answer, path);
    }
    return names;
  };

  beforeAll(async () => {
    token = await http.token(owner);
    await Promise.all(Array.from({ length: PLANTS }, (_, at) => create(at + 1)));
  });
  afterEach(() => {
    CliProcess.killAll();
  });

  describe('plants status', () => {
    it('tells what there is, for scripts', async () => {
      const found = await statusOnce(({ processes, lag }) => processes.length > 0 && lag.seconds === 0);
      const one = found.processes.find(({ roles }) => roles.includes('projector'));
      const embedded = STORES === 'embedded';
      expect(found).toMatchObject({
        problems: [],
        lag: { seconds: 0, events: embedded ? 0 : null },
        leaseHolder: one?.process,
        generations: [
          {
            generation: expect.any(Number) as unknown,
            active: true,
            behind: 0,
            slowest: found.head,
            fastest: found.head,
          },
        ],
        rebuild: null,
        lastRebuild: null,
        wayBack: null,
        blocked: null,
        warnings: [],
        parked: { owners: 0, events: [] },
        skipped: [],
      });
      expect(found.processes).toHaveLength(1);
      expect(one).toMatchObject({
        roles: ['api', 'projector', 'auditor'],
        address: service.url,
        projector: { state: 'live' },
      });
    });

    embeddedOnly('paints a table, once a second until Ctrl-C', async () => {
      const watching = CliProcess.piped(['status', '--watch'], service.env);
      await watching.says(/(all is well[^]*){2}/);
      watching.signal('SIGINT');
      await expectExitOfLast(watching, /^(all is well|PROBLEM)/gm);
      expect(watching.stdout).toMatch(
        /^PROCESS +ROLES +VERSION +ADDRESS .*\n(.* api .*\n)*.* api,projector,auditor .* live .* yes( |$)/m,
      );
      expect(watching.stdout).toMatch(/^GENERATION +ACTIVE .*\n\d+ +yes .* 0 of 64$/m);
      expect(watching.stdout).not.toContain('\x1b');
    });

    (STORES === 'servers' ? it : it.skip)('asks stores again that were away when it began', async () => {
      const { EVENT_LOG: log = '', READ_MODEL: lists = '' } = service.env;
      const [toLog, toLists] = await Promise.all(
        [log, lists].map(async (url) => TcpProxy.start(Number(new URL(url).port))),
      );
      if (!toLog || !toLists) throw new Error('there are two stores');
      const through = (url: string, { port }: TcpProxy) => url.replace(/:\d+(?=[/?]|$)/, `:${port}`);
      toLog.freeze();
      await toLists.refuse();
      const watching = CliProcess.piped(['status', '--watch', '--json'], {
        ...service.env,
        EVENT_LOG: through(log, toLog),
        READ_MODEL: through(lists, toLists),
      });
      const seen = new Set<number>();
      for await (const line of watching.lines()) {
        const { unanswered } = JSON.parse(line) as SystemStatus;
        seen.add(unanswered.length);
        if (unanswered.length === 2) {
          toLog.thaw();
          await toLists.accept();
        } else if (unanswered.length === 0) watching.signal('SIGINT');
      }
      await watching.ended();
      expect([seen.has(2), seen.has(0)]).toEqual([true, true]);
      for (const proxy of [toLog, toLists]) await proxy.refuse();
    });

    (TERMINALS ? it : it.skip)('repaints in place on a terminal', async () => {
      const watching = CliProcess.onTerminal(['status', '--watch'], service.env);
      await watching.says(/(\x1b\[H[^]*\x1b\[J[^]*){2}/);
      watching.type('\x03');
      await expectExitOfLast(watching, /\x1b\[H(all is well|PROBLEM)/g);
    });
  });

  describe('plants rebuild', () => {
    it('builds the lists again while clients write and read, and rollback goes back', async () => {
      let written = PLANTS;
      const before = activeOf(await status());
      const done = new AbortController();
      const traffic = (async () => {
        while (!done.signal.aborted) {
          expect(await create(written + 1)).toBe(201);
          written += 1;
          expect(await list()).toHaveLength(written);
        }
      })();
      const rebuilt = await json<object>('rebuild').finally(() => {
        done.abort();
      });
      await traffic;
      expect(rebuilt).toMatchObject({ exit: 0, outcome: 'promoted' });
      const found = await status();
      expect(rebuilt).toMatchObject({ generation: activeOf(found) });
      expect(activeOf(found)).not.toBe(before);
      expect(found.wayBack?.generation).toBe(before);
      expect(found.lastRebuild?.outcome).toBe('promoted');

      expect(await json<object>('rollback', '--reason', 'to see it')).toEqual({
        exit: 0,
        rolledBack: true,
        generation: before,
      });
      expect(await list()).toHaveLength(written);
      const again = await plants('rollback');
      expect(again).toEqual({
        status: 1,
        stdout: '',
        stderr: expect.stringMatching(/^plants: .*(gone|already)\n$/) as unknown,
      });
    });

    embeddedOnly(
      'shows one that is under way, refuses a second, and gives it up; Ctrl-C ends only the watching',
      async () => {
        // One event a second: it ends long after this test.
        const watching = CliProcess.piped(['rebuild', '--rate', '1'], service.env);
        await watching.says(/rebuild .* is requested/);
        const found = await statusOnce(({ rebuild }) => rebuild?.phase === 'building');
        expect(found.rebuild).toMatchObject({ generation: expect.any(Number) as unknown, problem: null });
        watching.signal('SIGINT');
        expect(await watching.ended()).toBe(130);
        expect(watching.stderr).toMatch(/^plants: no longer watching: the rebuild goes on/m);

        const [second, dry] = await Promise.all([plants('rebuild'), plants('rebuild', '--dry-run')]);
        expect(second).toMatchObject({ status: 1, stdout: '' });
        expect(second.stderr).toMatch(/^plants: rebuild .* has been running since .*cancel it\n$/);
        expect(dry.stdout).toMatch(
          /^The log holds \d+ events\.[^]*beside generation \d+[^]*\nNow it would be refused: .*\n$/,
        );

        expect(await json<object>('rebuild', '--cancel')).toMatchObject({
          exit: 0,
          rebuild: found.rebuild?.rebuild,
        });
        const after = await statusOnce(({ generations }) => generations.length === 1);
        expect(after.lastRebuild?.outcome).toMatch(/^cancelled: by cli:/);
        expect((await plants('rebuild', '--cancel')).stderr).toBe('plants: no rebuild is running\n');
      },
    );
  });

  describe('plants verify', () => {
    it('finds rows that somebody has changed by hand, and a rebuild heals them', async () => {
      damageLists(service, owner);
      const differences = [
        { owner, id: 7, expected: '{"name":"plant 7","tag":""}', found: null },
        { owner, id: 9, expected: '{"name":"plant 9","tag":""}', found: '{"name":"added","tag":""}' },
        { owner, id: 5_000, expected: null, found: '{"name":"added","tag":""}' },
      ];
      const [found, told] = await Promise.all([json<object>('verify'), plants('verify')]);
      expect(found).toMatchObject({ exit: 1, differing: 3, differences });
      expect(told.stdout).toContain(
        `owner "${owner}", id 7: expected {"name":"plant 7","tag":""}, found none\n`,
      );
      expect(told.stdout).toContain('3 differences');
      expect(told.stdout).toContain('npx plants rebuild');
      expect((await plants('rebuild')).status).toBe(0);
      expect((await plants('verify')).stdout).toMatch(
        /^the lists are the fold of the log: compared \d+ plants/,
      );
    });
  });

  describe('plants skip', () => {
    embeddedOnly(
      'leaves out an event that stops a list, after showing it; a rebuild with --unskip looks at it again',
      async () => {
        const readable = (await service.events())[0]?.position ?? '';
        const raw = { ...newEvent({ id: 9, evil: '\u009b31m' }), type: 'PlantWatered' };
        const { position } = await service.writing((log) =>
          log.append(plantStream(owner, 9_000), 'none', [raw]),
        );
        const found = await statusOnce(
          ({ parked, processes }) =>
            parked.owners > 0 && processes.some(({ projector }) => projector?.state === 'live'),
        );
        expect(found).toMatchObject({
          problems: [expect.stringContaining('the lists of 1 owner are not answered')],
          parked: { owners: 1, events: [{ position, stream: plantStream(owner, 9_000), revision: 0 }] },
        });
        expect(await create(8_000)).toBe(201);
        await expect(list()).rejects.toThrow('503');

        const skip = (at: string, ...more: string[]) =>
          plants('skip', '--position', at, '--reason', 'a test', ...more);
        const [verified, nowhere, good, unasked] = await Promise.all([
          plants('verify'),
          skip(`${position}0`, '--yes'),
          skip(readable, '--yes'),
          skip(position),
        ]);
        expect(verified).toMatchObject({ status: 0 });
        expect(verified.stdout).toMatch(
          /^the lists are the fold of the log: .*\nthe lists of 1 owner are not answered/,
        );
        expect(nowhere.stderr).toMatch(/^plants: there is no event at that position/);
        expect(good.stderr).toMatch(/^plants: that event can be read/);
        expect(unasked).toMatchObject({ status: 1, stdout: '' });
        expect(unasked.stderr).toMatch(
          /^type +PlantWatered\ndata .*\\u\{9b\}31m.*\nrefused +unknown type.*\n.*--yes/m,
        );

        if (TERMINALS) {
          const asked = ['skip', '--position', position, '--reason', 'a test'];
          for (const [typed, status, said] of [
            ['\x03', 130, 'plants: interrupted: nothing is skipped'],
            ['\x04', 1, 'nothing is skipped'],
            ['y\r', 0, 'undone by plants rebuild --unskip'],
          ] as const) {
            const asking = CliProcess.onTerminal(asked, service.env);
            await asking.says(/Skip it\? \[y\/N\] /);
            asking.type(typed);
            expect([typed, await asking.ended()]).toEqual([typed, status]);
            expect(asking.stdout).toContain(said);
            expect(asking.stdout).not.toMatch(/^ +at /m);
          }
        } else expect((await skip(position, '--yes')).status).toBe(0);
        const after = await statusOnce(({ problems }) => problems.length === 0);
        const { id } = known(
          (await service.events()).find(({ stream }) => stream === plantStream(owner, 9_000)),
        );
        expect(after.skipped).toMatchObject([{ stream: id, revision: 0, reason: 'a test' }]);
        const [again, sound] = await Promise.all([skip(position, '--yes'), plants('verify')]);
        expect(again.stderr).toMatch(/^plants: that event is skipped already/);
        expect(sound.status).toBe(0);

        expect(await list()).toContain('plant 8000');

        const rebuilt = await plants('rebuild', '--unskip');
        expect(rebuilt.status).toBe(1);
        expect(rebuilt.stdout).toMatch(
          /^rebuild .* was cancelled: generation \d+ would stop lists that generation \d+ answers: event 0 /,
        );
        expect(await list()).toContain('plant 8000');
      },
      3 * 60_000, // twelve processes, one after the other: on a real server each start takes seconds
    );
  });

  describe('without a running service', () => {
    beforeAll(() => service.stop());

    embeddedOnly('tells that nothing projects, and that a request waits', async () => {
      const found = await plants('status');
      expect(found.status).toBe(1);
      expect(found.stdout).toMatch(/^PROBLEM {2}nothing projects: .*\n\nlog/);
      expect(found.stdout).toMatch(/^PROCESS .*\n\nGENERATION/m); // nobody tells anything

      const asked = await plants('rebuild', '--no-wait');
      expect(asked).toMatchObject({ status: 0 });
      expect(asked.stdout).toContain('the request waits until one is started');
      expect((await plants('rebuild', '--cancel')).status).toBe(0);
    });
  });
});

// The stores have no part in it, so that once is enough.
(STORES === 'embedded' ? describe : describe.skip)('how they are called', () => {
  it.each([
    ['to cancel at a rate', ['rebuild', '--cancel', '--rate', '5']],
    ['to skip without a reason', ['skip', '--position', '1', '--reason', ' ']],
  ])('refuses %s with status 2', async (_what, args) => {
    expect(await runCli(args, {})).toMatchObject({ status: 2, stdout: '' });
  });

  it('makes no new event log where there is none', async () => {
    const folder = temporaryFolder();
    const { status, stderr } = await runCli(['status'], { DATA_DIR: folder });
    expect(status).toBe(1);
    expect(stderr).toMatch(/^plants: there is no event log .*events\.db: .*DATA_DIR.*\n$/);
  });

  it('make no read model where there is none: the service could not open that of another user', async () => {
    const folder = temporaryFolder();
    await (await openEventLog({ kind: 'sqlite', file: join(folder, 'events.db') })).close();
    for (const command of ['status', 'verify']) {
      const { status, stderr } = await runCli([command], { DATA_DIR: folder });
      expect([command, status]).toEqual([command, 1]);
      expect(stderr).toMatch(/^plants: there is no read model .*lists: start the service, .*\n$/);
    }
    expect(await runCli(['history', '--json'], { DATA_DIR: folder })).toMatchObject({
      status: 0,
      stdout: '',
    });
    expect(existsSync(join(folder, 'lists'))).toBe(false);
  });
});

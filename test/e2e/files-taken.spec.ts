import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, lstatSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { activeLists } from '../support/damaged-lists.js';
import { known } from '../support/domain-model.js';
import { ROUNDS, told, WAYS } from '../support/files-taken.js';
import { TestService } from '../support/service.js';
import { STORES } from '../support/stores-of-this-run.js';

/** Plants that are acknowledged before a file is taken away. */
const BEFORE = 20;

/** Plants of one service: one list holds them all. */
const MOST = 950;

/** A service, and clients that write and list. */
class Greenhouse {
  /** Names of plants that were acknowledged. */
  readonly acknowledged: string[] = [];
  lists = 0;
  /** Lists that lacked a plant that had been acknowledged before they were asked for. */
  readonly wrong: string[] = [];
  #token = '';
  #next = 0;

  private constructor(readonly service: TestService) {}

  static async open(): Promise<Greenhouse> {
    const service = await TestService.start({ WRITE_WAIT_MS: '500', AUDIT_RECHECK_SECONDS: '3600' });
    await service.ready();
    const house = new Greenhouse(service);
    house.#token = await service.token('ada');
    return house;
  }

  at(name: string): string {
    return join(this.service.dataDir, name);
  }

  /** A connection that a process broke off is no answer. */
  async #ask(init: RequestInit): Promise<{ status: number; text: string }> {
    try {
      const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
      const path = init.method === 'POST' ? '/plants' : '/plants?limit=1000';
      const answer = await fetch(`${this.service.url}${path}`, { ...init, headers });
      return { status: answer.status, text: await answer.text() };
    } catch {
      return { status: 0, text: '' };
    }
  }

  async create(): Promise<number> {
    const id = this.#next++;
    const body = JSON.stringify({ name: `${id}`, tag: 'x'.repeat(200), id });
    const { status } = await this.#ask({ method: 'POST', body });
    if (status === 201) this.acknowledged.push(`${id}`);
    return status;
  }

  /** Lists. Gives whether it was answered. */
  async list(): Promise<boolean> {
    const before = this.acknowledged.length;
    const { status, text } = await this.#ask({});
    if (status !== 200) return false;
    this.lists += 1;
    const names = new Set((JSON.parse(text) as { name: string }[]).map(({ name }) => name));
    const lacking = this.acknowledged.slice(0, before).filter((name) => !names.has(name));
    if (lacking.length > 0) this.wrong.push(`${lacking.length} of ${before}: ${lacking.slice(0, 3).join()}`);
    return true;
  }

  /** Goes on writing and listing until it holds. */
  async until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const end = performance.now() + 150_000;
    while (!(await condition())) {
      if (performance.now() > end) throw new Error(`it did not come true: ${what}`);
      if (this.acknowledged.length < MOST) await this.create();
      await this.list();
    }
  }

  /** Starts the process if it has ended, as a supervisor would. */
  async revive(): Promise<void> {
    if (this.service.hasEnded) await this.service.start();
  }

  /** Writes so many more plants. */
  async write(more: number): Promise<void> {
    const enough = Math.min(MOST, this.acknowledged.length + more);
    await this.until('plants are created', () => this.acknowledged.length >= enough);
  }

  /** Lines of its log since it had that many. */
  logged(since: number): string[] {
    return this.service.logged.slice(since).map(({ msg }) => String(msg));
  }

  async metrics(): Promise<string> {
    const answer = await fetch(`${this.service.url}/metrics`).catch(() => undefined);
    return (await answer?.text()) ?? '';
  }

  async heldByLog(): Promise<Set<string>> {
    const events = await this.service.events();
    return new Set(events.flatMap(({ data }) => String((data as { name?: string }).name)));
  }

  async close(): Promise<void> {
    await this.service.remove();
  }
}

const FILES = ['', '-wal', '-shm'] as const;

/** The cases of the short form. */
const SHORT = ['lists-wal removed', 'lists cut in half', 'tree.db-wal removed'];

const casesOf = (store: string): [file: string, way: string, take: (file: string) => void][] =>
  FILES.flatMap((suffix) =>
    Object.entries({
      ...WAYS,
      ...(suffix === '' ? { 'written over by another database': writtenOver } : {}),
    }).map(([way, take]) => [`${store}${suffix}`, way, take] as [string, string, (file: string) => void]),
  ).filter(([file, way]) => ROUNDS > 1 || SHORT.includes(`${file} ${way}`));

/** As `cp` does: with the other store's file, which is an SQLite database, too. */
const writtenOver = (file: string): void => {
  const data = file.endsWith('tree.db') ? dirname(file) : dirname(dirname(file));
  copyFileSync(file.endsWith('tree.db') ? known(activeLists(data)) : join(data, 'tree.db'), file);
};

/** Removes a file or folder, as an operator would who follows the message. */
const clear = (path: string): void => {
  rmSync(path, { recursive: true, force: true });
};

const LIMIT_MS = ROUNDS * 60_000;

/** The long form takes its time by waiting: several cases at once. */
const cases = ROUNDS > 1 ? it.concurrent : it;

(STORES === 'embedded' ? describe : describe.skip)('a service whose files are taken away', () => {
  /** Runs the rounds of a case, and says and asserts what has come of it. */
  const rounds = async (
    file: string,
    way: string,
    round: (house: Greenhouse) => Promise<void>,
  ): Promise<void> => {
    const house = await Greenhouse.open();
    try {
      for (let done = 0; done < ROUNDS; done += 1) {
        await house.write(BEFORE);
        await round(house);
      }
      const held = await house.heldByLog();
      const lost = house.acknowledged.filter((name) => !held.has(name));
      const { lists, wrong } = house;
      const acknowledged = house.acknowledged.length;
      told({ file, way, rounds: ROUNDS, acknowledged, lost: lost.length, lists, wrong: wrong.length });
      expect([lost, wrong]).toEqual([[], []]);
    } finally {
      await house.close();
    }
  };

  const listed = async (house: Greenhouse): Promise<void> => {
    await house.until('it lists', () => house.list());
  };

  cases.each(casesOf('lists'))(
    '%s %s: lists are whole or 503, and come back',
    async (name, way, take) => {
      await rounds(name, way, async (house) => {
        const since = house.service.logged.length;
        const file = `${known(activeLists(house.service.dataDir))}${name.slice('lists'.length)}`;
        take(file);
        const says = /lists\/\d+\.db(-wal|-shm)? was .*: nothing that was acknowledged is lost/;
        await house.until(
          `${name} ${way} is noticed`,
          () => house.service.hasEnded || house.logged(since).some((line) => says.test(line)),
        );
        await house.revive();
        await listed(house);
      });
    },
    LIMIT_MS,
  );

  cases.each(casesOf('tree.db'))(
    '%s %s: plants are written and listed, and the words bring it back',
    async (name, way, take) => {
      await rounds(name, way, async (house) => {
        const signed = async (): Promise<number> =>
          Number((await (await fetch(`${house.service.url}/log/checkpoint`)).text()).split('\n')[1]);
        await house.until('it is signed', async () => (await signed()) > 0);
        const before = await signed();
        const since = house.service.logged.length;
        take(house.at(name));
        const isTold = async (): Promise<boolean> =>
          (await house.metrics()).includes('auditor_state{state="disconnected"} 1') || house.service.hasEnded;
        // SQLite answers from its memory, so that a file that was cut is noticed only at the next start.
        const isHidden = name !== 'tree.db-shm' && /trunc|half|written/.test(way);
        await (isHidden ? house.write(BEFORE) : house.until(`${name} ${way} is noticed`, isTold));
        const reasons = house.service.logged
          .slice(since)
          .map(({ auditor }) => (auditor as { reason?: string } | undefined)?.reason ?? '');
        if (!isHidden && !house.service.hasEnded) expect(reasons.join('\n')).toMatch(/tree\.db/);
        if (!house.service.hasEnded) expect(await house.create()).toBe(201);
        await house.service.stop();
        const isWhole = name !== 'tree.db' && !/trunc|half/.test(way);
        const stands = lstatSync(house.at(name), { throwIfNoEntry: false });
        if (isWhole) {
          if (stands && !stands.isFile()) clear(house.at(name));
        } else if (name !== 'tree.db-shm') for (const suffix of FILES) clear(house.at(`tree.db${suffix}`));
        await house.service.start();
        if (isWhole) await house.until('it is signed', async () => (await signed()) >= before);
        await listed(house);
      });
    },
    LIMIT_MS,
  );

  const folderCases: [string, (folder: string) => () => void][] = [
    [
      'moved',
      (folder) => {
        renameSync(folder, `${folder}.elsewhere`);
        return () => {
          expect(existsSync(folder)).toBe(false);
          renameSync(`${folder}.elsewhere`, folder);
        };
      },
    ],
    [
      'covered by another file system',
      (folder) => {
        mounted('mount', '-t', 'tmpfs', 'none', folder);
        return () => {
          mounted('umount', folder);
        };
      },
    ],
  ];

  cases.each(folderCases.filter(([way]) => way === 'moved' || (ROUNDS > 1 && process.getuid?.() === 0)))(
    'DATA_DIR %s: nothing is acknowledged, and all is there once it is back',
    async (way, take) => {
      await rounds('DATA_DIR', way, async (house) => {
        const undo = take(house.service.dataDir);
        await house.until('writes are refused', async () => (await house.create()) === 503);
        const acknowledged = house.acknowledged.length;
        for (let more = 0; more < 10; more += 1) expect(await house.create()).toBe(503);
        expect(house.acknowledged).toHaveLength(acknowledged);
        undo();
        await house.service.kill();
        await house.revive();
        await listed(house);
      });
    },
    LIMIT_MS,
  );
});

const mounted = (command: string, ...args: string[]): void => {
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command}: ${stderr}`);
};

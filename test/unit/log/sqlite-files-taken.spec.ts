import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, lstatSync, mkdirSync, rmSync, realpathSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { rescuedBeside } from '../../../src/log/sqlite/log-files.js';
import { whyNotToStart } from '../../../src/service/start-check.js';
import { type AppendHealth, START } from '../../../src/log/event-log.js';
import { all, newEvent } from '../../support/log-events.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { ROUNDS, told, WAYS } from '../../support/files-taken.js';
import { type WriterLine } from '../../support/log-writer-child.js';

/** Events that are acknowledged before a file is taken away. */
const BEFORE = 60;

const CHILD = fileURLToPath(new URL('../../support/log-writer-child.js', import.meta.url));

/** A process that appends to a log without a pause, and all that it says. */
class Writer {
  readonly acknowledged: string[] = [];
  readonly refused: string[] = [];
  /** Appends that were acknowledged when the first one was refused. */
  acknowledgedBefore: number | undefined;
  health: AppendHealth | undefined;
  readonly #child: ChildProcess;
  #news: () => void = () => undefined;

  constructor(file: string) {
    this.#child = spawn(process.execPath, ['--no-warnings', CHILD, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { PATH: process.env.PATH },
    });
    createInterface({ input: this.#child.stdout ?? process.stdin }).on('line', (text) => {
      const line = JSON.parse(text) as WriterLine;
      if (line.acknowledged !== undefined) this.acknowledged.push(line.acknowledged);
      if (line.refused !== undefined) {
        this.refused.push(line.refused);
        this.acknowledgedBefore ??= this.acknowledged.length;
      }
      if (line.health) this.health = line.health;
      this.#news();
    });
    this.#child.once('exit', () => {
      this.#news();
    });
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async until(reached: () => boolean): Promise<void> {
    while (!reached() && !this.hasEnded) await new Promise<void>((resolve) => (this.#news = resolve));
  }

  async kill(): Promise<void> {
    if (this.hasEnded) return;
    this.#child.kill('SIGKILL');
    await once(this.#child, 'close');
  }
}

const FILES = ['events.db', 'events.db-wal', 'events.db-shm'] as const;

describe('an event log whose files are taken away while it is written', () => {
  let folder: string;
  let data: string;
  let file: string;
  let writer: Writer;

  const start = async (): Promise<void> => {
    folder = temporaryFolder();
    data = join(folder, 'data');
    mkdirSync(data);
    file = join(data, 'events.db');
    writer = new Writer(file);
    await writer.until(() => writer.acknowledged.length >= BEFORE);
  };

  beforeEach(start);
  afterEach(async () => {
    await writer.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  const again = async (): Promise<void> => {
    await writer.kill();
    rmSync(folder, { recursive: true, force: true });
    await start();
  };

  const isSettled = (): boolean =>
    writer.health?.state === 'stopped' && !(writer.health.reason ?? '').includes('is being saved');

  /** Waits until the process has said what it could save, and kills it. Nothing is acknowledged after the first refusal. */
  const stopped = async (): Promise<string> => {
    await writer.until(() => isSettled() && writer.refused.length > 8);
    const reason = writer.hasEnded ? '' : (writer.health?.reason ?? '');
    await writer.kill();
    expect(writer.acknowledgedBefore ?? writer.acknowledged.length).toBe(writer.acknowledged.length);
    return reason;
  };

  /** Does what the words say, and gives the streams that the log then holds. */
  const restored = async (): Promise<Set<string>> => {
    const refusal = whyNotToStart(file, { lists: undefined, tree: join(folder, 'tree.db') });
    const saved = rescuedBeside(file).at(-1);
    if (refusal !== undefined) {
      expect(refusal).not.toContain('\n');
      if (saved === undefined) return new Set();
      expect(refusal).toContain(`rename that copy to ${file}`);
      for (const suffix of ['', '-wal', '-shm'])
        if (existsSync(`${file}${suffix}`)) renameSync(`${file}${suffix}`, `${file}${suffix}.aside`);
      renameSync(saved, file);
    }
    for (const beside of [`${file}-wal`, `${file}-shm`]) {
      const stands = lstatSync(beside, { throwIfNoEntry: false });
      if (!stands || stands.isFile()) continue;
      if (stands.isSymbolicLink()) renameSync(realpathSync(beside), beside);
      else renameSync(beside, `${beside}.aside`);
    }
    const log = await openSqliteEventLog(file);
    try {
      return new Set((await all(log.readAll(START))).map(({ stream }) => stream));
    } finally {
      await log.close();
    }
  };

  const cases = Object.entries(WAYS).flatMap(([way, take]) =>
    FILES.map((name) => [name, way, take] as const),
  );

  it.each(cases)(
    '%s %s: what was acknowledged is there after kill -9',
    async (name, way, take) => {
      let acknowledged = 0;
      for (let round = 0; round < ROUNDS; round += 1) {
        if (round > 0) await again();
        take(join(data, name));
        const reason = await stopped();
        const isDead = name === 'events.db-shm' && reason === ''; // its pages are mapped: the system ends who reads them
        if (!isDead) expect(reason).toMatch(new RegExp(`${name} was (removed|replaced|truncated)`));
        const held = await restored();
        expect([round, way, writer.acknowledged.filter((stream) => !held.has(stream))]).toEqual([
          round,
          way,
          [],
        ]);
        acknowledged += writer.acknowledged.length;
      }
      told({ file: name, way, rounds: ROUNDS, acknowledged, lost: 0 });
    },
    60_000 * ROUNDS,
  );

  it(
    'nothing is acknowledged after another database was copied over events.db, and its -wal is kept',
    async () => {
      let acknowledged = 0;
      let lost = 0;
      for (let round = 0; round < ROUNDS; round += 1) {
        if (round > 0) await again();
        const other = await openSqliteEventLog(join(folder, 'other.db'));
        await other.append('s', 'none', [newEvent('y')]);
        await other.close();
        copyFileSync(join(folder, 'other.db'), file);
        expect(await stopped()).toMatch(
          /events\.db was (written over by something else|truncated) .*(-wal\.kept-.*keep .* restore the log from a backup|was saved in)/,
        );
        const saved = rescuedBeside(file).length > 0;
        const held = saved ? await restored() : new Set<string>();
        acknowledged += writer.acknowledged.length;
        lost += writer.acknowledged.filter((stream) => !held.has(stream)).length;
      }
      told({ file: 'events.db', way: 'written over by another log', rounds: ROUNDS, acknowledged, lost });
    },
    60_000 * ROUNDS,
  );

  it(
    'is whole once its folder, which was moved, is back',
    async () => {
      let acknowledged = 0;
      for (let round = 0; round < ROUNDS; round += 1) {
        if (round > 0) await again();
        renameSync(data, `${data}.elsewhere`);
        expect(await stopped()).toMatch(/events\.db was removed or moved/);
        if (!existsSync(data)) renameSync(`${data}.elsewhere`, data);
        const held = await restored();
        expect(writer.acknowledged.filter((stream) => !held.has(stream))).toEqual([]);
        acknowledged += writer.acknowledged.length;
      }
      told({ file: 'folder of events.db', way: 'moved', rounds: ROUNDS, acknowledged, lost: 0 });
    },
    60_000 * ROUNDS,
  );
});

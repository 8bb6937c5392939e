import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { copyFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { Auditor } from '../../../src/audit/auditor.js';
import { type AuditorStatus } from '../../../src/audit/auditor-status.js';
import { openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { GrowingTree, type Hash, leafHash } from '../../../src/transparency/merkle.js';
import { recheck, RecheckProgress } from '../../../src/audit/recheck.js';
import { signerKey } from '../../../src/audit/key.js';
import { signTree } from '../../../src/audit/sign-tree.js';
import { grown, storedRoot } from '../../../src/audit/stored-tree.js';
import {
  type EventLog,
  type Json,
  LogUnavailable,
  type Position,
  START,
} from '../../../src/log/event-log.js';
import { AlarmStands, TreeMoved, type TreeStore, TreeUnavailable } from '../../../src/audit/tree-store.js';
import { randomOf } from '../../support/altered/kind.js';
import { brokenOff, Faults } from '../../support/domain-faults.js';
import { all, sampleMetadata } from '../../support/log-events.js';
import { alterFile } from '../../support/past-triggers.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { never, until } from '../../support/waiting.js';
import { LONG_MS, quickTime } from '../../support/quick-time.js';

quickTime();

const key = signerKey('plants/test', generateKeyPairSync('ed25519').privateKey);
const now = (): Date => new Date();
const yieldToLoop = (): Promise<unknown> => nextTurn();

describe('an auditor', () => {
  let folder: string;
  let opened: { close(): Promise<void> }[];
  let ends: (() => Promise<void>)[];
  beforeEach(() => {
    folder = temporaryFolder();
    [opened, ends] = [[], []];
  });
  afterEach(async () => {
    for (const end of ends) await end();
    for (const each of opened.reverse()) await each.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const openLog = async (file = 'events.db'): Promise<EventLog> => {
    const log = await openSqliteEventLog(join(folder, file), { deadlineMs: LONG_MS });
    opened.push(log);
    return log;
  };
  const openStore = async (log: EventLog, file = 'tree.db'): Promise<TreeStore> => {
    const store = await openSqliteTreeStore(join(folder, file), log.identity());
    opened.push(store);
    return store;
  };
  const openBoth = async () => {
    const log = await openLog();
    return { log, store: await openStore(log) };
  };
  const append = async (log: EventLog, from: number, to: number): Promise<void> => {
    const appends: Promise<unknown>[] = [];
    for (let n = from; n < to; n++) {
      const data: Json = { id: n, name: `n${n}`, tag: '' };
      const event = { id: randomUUID(), type: 'PlantCreated', data, metadata: sampleMetadata() };
      appends.push(log.append(`plant-owner/${n}`, 'none', [event]));
      if (appends.length === 1_000) await Promise.all(appends.splice(0));
    }
    await Promise.all(appends);
  };
  /** An event that has no leaf. */
  const appendOdd = (log: EventLog): Promise<unknown> =>
    log.append('plant-odd/1', 'none', [
      { id: randomUUID(), type: 'PlantCreated', data: { name: '\ud800' }, metadata: sampleMetadata() },
    ]);
  /** Runs an auditor until `done`, which may go on or end it. */
  const run = (log: EventLog, store: TreeStore, recheckMs = 3_600_000) => {
    const states: AuditorStatus[] = [];
    const stopping = new AbortController();
    const options = {
      now,
      yieldToLoop,
      patienceMs: 0,
      recheckMs,
      onState: (one: AuditorStatus) => states.push(one),
    };
    const auditor = new Auditor(log, store, key, options);
    const running = auditor.run(stopping.signal);
    const stop = async (): Promise<void> => {
      stopping.abort();
      await running;
    };
    ends.push(stop);
    return { auditor, states, stop };
  };
  /** Changes the file of the log behind everybody's back. */
  const alter = (sql: string): void => {
    alterFile(join(folder, 'events.db'), sql);
  };
  const leavesOf = async (log: EventLog) =>
    (await all(log.readAll(START))).map((event) => ({
      hash: leafHash(leafOf(event)),
      position: event.position,
    }));
  const rootOver = (leaves: readonly { readonly hash: Hash }[]): Hash => {
    const tree = new GrowingTree();
    for (const { hash } of leaves) tree.append(hash);
    return tree.root();
  };

  it('keeps the tree that its log makes, at every size, however the log was cut into batches', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 1_300);
    const leaves = await leavesOf(log);
    const random = randomOf(7);
    for (let at = 0; at < leaves.length;) {
      const slice = leaves.slice(at, at + 1 + random(120));
      await store.append(grown(await store.tree(), slice));
      at += slice.length;
    }
    const naive = new GrowingTree();
    for (const [index, { hash }] of leaves.entries()) {
      expect(Buffer.from(await storedRoot(store, index))).toEqual(Buffer.from(naive.root()));
      naive.append(hash);
    }
    expect(await store.markOfIndex(700)).toEqual({ index: 512, before: leaves[511]?.position });
    expect(await store.markOfPosition(leaves[512]?.position ?? START)).toMatchObject({ index: 512 });
    expect(await store.markOfPosition(leaves[511]?.position ?? START)).toMatchObject({ index: 256 });
    expect(
      await recheck(log, store, { now, yieldToLoop, patienceMs: 0, keys: [key] }, never()),
    ).toBeUndefined();
  });

  it.each([
    ['holds less than it consists of', 'size = size - 3', /^the stored tree was altered: a tree of 397 /],
    [
      'is said to end at another event',
      "position = printf('%016d', position - 1)",
      /^event at index 399 is as it was put in the tree, but stands at position 0+400, not at 0+399$/,
    ],
  ])('appends and signs nothing where the stored tree %s', async (_what, change, message) => {
    const { log, store } = await openBoth();
    await append(log, 0, 400);
    const first = run(log, store);
    await until(async () => (await store.latestCheckpoint())?.size === 400);
    await first.stop();
    alterFile(join(folder, 'tree.db'), `UPDATE tree SET ${change}`);
    const second = run(log, store);
    await until(() => second.auditor.status.alarm !== undefined);
    expect(second.auditor.status.alarm?.message).toMatch(message);
    expect((await store.latestCheckpoint())?.size).toBe(400);
    expect((await store.tree()).size).toBeLessThanOrEqual(400);
  });

  it('signs what it has read, goes on after a stop, and signs extensions only', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 400);
    const first = run(log, store);
    await until(async () => (await store.latestCheckpoint())?.size === 400);
    await first.stop();
    await append(log, 400, 700);
    const second = run(log, store);
    await until(() => second.auditor.status.checkpoint?.size === 700);
    const leaves = await leavesOf(log);
    for (const size of [400, 700]) {
      const note = (await store.checkpoint(size))?.note ?? '';
      const { root } = openCheckpoint(note, 'plants/test', [key]);
      expect(Buffer.from(root)).toEqual(Buffer.from(rootOver(leaves.slice(0, size))));
    }
    await until(() => second.auditor.status.recheckedAt !== undefined);
    expect(second.auditor.status).toMatchObject({ state: 'live', size: 700 });
  });

  it('signs the empty tree of an empty log, so that there is a checkpoint from the beginning', async () => {
    const { log, store } = await openBoth();
    run(log, store);
    await until(async () => (await store.latestCheckpoint())?.size === 0);
  });

  it('appends all of a batch or nothing, and refuses a batch that does not continue the tree', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 3);
    const growth = grown(await store.tree(), await leavesOf(log));
    const unfit = {
      ...growth,
      tiles: [...growth.tiles, { level: 1, index: 0, from: 5, hashes: Buffer.alloc(32) }],
    };
    await expect(store.append(unfit)).rejects.toThrow(TreeUnavailable);
    expect(await store.tree()).toMatchObject({ size: 0 });
    expect(await store.tile(0, 0)).toHaveLength(0);
    await store.append(growth);
    await expect(store.append(growth)).rejects.toThrow(TreeMoved);
  });

  it('shares a store with another one', async () => {
    const log = await openLog();
    const both = [run(log, await openStore(log)), run(log, await openStore(log))];
    const haveSigned = (size: number) =>
      both.every(({ auditor }) => auditor.status.checkpoint?.size === size);
    await until(() => haveSigned(0));
    await append(log, 0, 300);
    await until(() => haveSigned(300));
    for (const { auditor } of both) expect(auditor.status.alarm).toBeUndefined();
  });

  it('leaves signing to another one that was faster', async () => {
    const { log, store } = await openBoth();
    const { auditor } = run(log, store);
    await append(log, 0, 200);
    await until(() => auditor.status.checkpoint?.size === 200);
    const before = await store.state();
    await append(log, 200, 300);
    await until(() => auditor.status.checkpoint?.size === 300);
    expect(await signTree(store, before, key, () => '')).toMatchObject({ checkpoint: { size: 300 } });
  });

  it('shows that it reads the log again, since when and how far, until it has', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 700);
    const before = run(log, store);
    await until(() => before.auditor.status.checkpoint?.size === 700);
    await before.stop();
    let resume: () => void = () => undefined;
    const resumed = new Promise<void>((resolve) => (resume = resolve));
    const faults = new Faults(store).every('markOfIndex', async (proceed, index) => {
      if (index === 512) await resumed;
      return proceed(index);
    });
    const { auditor } = run(log, faults.port);
    await until(() => auditor.status.rechecking?.events === 256);
    const { rechecking, recheckedAt } = auditor.status;
    expect(recheckedAt).toBeUndefined();
    expect(Date.parse(rechecking?.since ?? '')).toBeLessThanOrEqual(Date.now());
    resume();
    await until(() => auditor.status.recheckedAt !== undefined);
    expect(auditor.status.rechecking).toBeUndefined();
  });

  it('goes on with reading the log again where that broke off', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 700);
    const before = run(log, store);
    await until(() => before.auditor.status.checkpoint?.size === 700);
    await before.stop();
    const read: Position[] = [];
    const broken = brokenOff(600, () => new LogUnavailable('gone'));
    const faults = new Faults(log).every('subscribe', (proceed, after, signal) => {
      read.push(after);
      return read.filter((from) => from === START).length === 1 && after === START
        ? broken(proceed, after, signal)
        : proceed(after, signal);
    });
    const { auditor } = run(faults.port, store);
    await until(() => auditor.status.recheckedAt !== undefined);
    const full = (await store.markOfIndex(512))?.before;
    expect(new Set(read)).toEqual(new Set([START, full, (await store.tree()).position]));
  });

  it('compares what it had read before a failure with what is signed since', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 700);
    await store.append(grown(await store.tree(), await leavesOf(log)));
    const broken = brokenOff(600, () => new LogUnavailable('gone'));
    const faults = new Faults(log).next('subscribe', broken);
    const options = { now, yieldToLoop, patienceMs: 0, keys: [key] };
    const progress = new RecheckProgress();
    await expect(recheck(faults.port, store, options, never(), progress)).rejects.toThrow('gone');
    await store.saveCheckpoint({ size: 400, root: Buffer.alloc(32), note: '', signedAt: '' });
    expect(await recheck(faults.port, store, options, never(), progress)).toMatchObject({
      kind: 'tree',
      message: expect.stringMatching(/its first 400 leaves have another root/) as unknown,
    });
  });

  it('raises an alarm that lasts, signs nothing while it stands, and trusts a mended log only once it has read it', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 60);
    const before = run(log, store);
    await until(() => before.auditor.status.checkpoint?.size === 60);
    await before.stop();
    await log.close();
    copyFileSync(join(folder, 'events.db'), join(folder, 'good.db'));
    alterFile(join(folder, 'events.db'), `UPDATE events SET data = '{"id":41}' WHERE seq = 42`);

    const altered = await openLog();
    const alarmed = run(altered, store);
    await until(() => alarmed.auditor.status.state === 'alarm');
    expect(Object.keys(alarmed.auditor.status.checkpoint ?? {})).toEqual(['size', 'signedAt']);
    expect(alarmed.auditor.status.alarm?.message).toMatch(
      /^event at index 41 \(position \d+42, event 0 of plant-owner\/41\) is not the one that was signed: it was changed/,
    );
    await append(altered, 60, 70);
    await expect(
      store.saveCheckpoint({ size: 60, root: Buffer.alloc(32), note: '', signedAt: '' }),
    ).rejects.toThrow(AlarmStands);
    await store.lift('anne', 'a mistake');
    await until(async () => (await store.alarm()) !== undefined); // it is still altered
    expect((await store.latestCheckpoint())?.size).toBe(60);
    await alarmed.stop();

    const mended = await openLog('good.db');
    const again = run(mended, store);
    await until(() => again.auditor.status.state === 'alarm');
    await store.lift('anne', 'restored');
    await append(mended, 60, 65);
    await until(() => again.auditor.status.checkpoint?.size === 65);
    expect(again.auditor.status.alarm).toBeUndefined();
  });

  it('refuses to sign a tree that is no extension of what it has signed', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 300);
    const before = run(log, store);
    await until(() => before.auditor.status.checkpoint?.size === 300);
    await before.stop();
    const database = new DatabaseSync(join(folder, 'tree.db'));
    database.exec('UPDATE tiles SET hashes = zeroblob(length(hashes)) WHERE level = 0 AND idx = 1');
    database.close();
    await append(log, 300, 301);
    const after = run(log, store);
    await until(() => after.auditor.status.state === 'alarm');
    expect(after.auditor.status.alarm).toMatchObject({ kind: 'tree' });
    expect((await store.latestCheckpoint())?.size).toBe(300);
  });

  it('stops at an event that has no leaf, says so, and signs what is before it', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 5);
    await appendOdd(log);
    const { auditor } = run(log, store);
    await until(() => auditor.status.state === 'blocked');
    expect(auditor.status.reason).toMatch(/^at position \d+6: event 0 of stream plant-odd\/1 is refused: /);
    await until(() => auditor.status.checkpoint?.size === 5);
  });

  it('reads what is before an event without a leaf again all the same, and raises the alarm', async () => {
    const { log, store } = await openBoth();
    await append(log, 0, 700);
    await appendOdd(log);
    const { auditor, states } = run(log, store, 50);
    await until(() => auditor.status.state === 'blocked' && auditor.status.recheckedAt !== undefined);
    expect(auditor.status.size).toBe(700);
    alter(`UPDATE events SET data = '{"id":41}' WHERE seq = 42`);
    await until(() => auditor.status.state === 'alarm');
    expect(auditor.status.alarm).toMatchObject({ kind: 'changed', index: 41 });
    expect(states.map(({ state }) => state).filter((state) => state === 'blocked')).toHaveLength(1);
  });

  it('is in alarm soon after another process has raised one, though the log does not grow', async () => {
    const { log, store } = await openBoth();
    const { auditor } = run(log, store);
    await until(() => auditor.status.state === 'live');
    await store.raise({ kind: 'tree', message: 'seen elsewhere', raisedAt: now().toISOString() });
    await until(() => auditor.status.alarm?.message === 'seen elsewhere');
  });

  it('has not read a log again whose tree is still empty', async () => {
    const { log, store } = await openBoth();
    const { auditor } = run(log, store);
    await until(() => auditor.status.checkpoint?.size === 0);
    await append(log, 0, 3);
    await until(() => auditor.status.recheckedAt !== undefined);
    expect(auditor.status.size).toBe(3);
  });

  it('refuses the tree of another log', async () => {
    const [log, other] = [await openLog(), await openLog('other.db')];
    await openStore(log);
    await expect(openStore(other)).rejects.toThrow(
      /is the tree of another log .*: move it away, and keep it/,
    );
  });

  it.each<[string, RegExp]>([
    ['tree.db', /tree\.db was removed .*: keep .*tree\.db-wal; stop .*put .*tree\.db back .*start again$/],
    ['tree.db-wal', /tree\.db-wal was removed .*SIGTERM.* comes into .*tree\.db;.* start again$/],
    ['tree.db-shm', /tree\.db-shm was removed .*SIGTERM.* comes into .*tree\.db;.* start again$/],
  ])('signs nothing any more when %s is taken away, and says what to keep', async (name, says) => {
    const log = await openLog();
    await append(log, 0, 5);
    const store = await openStore(log);
    const { auditor } = run(log, store);
    await until(() => auditor.status.checkpoint?.size === 5);
    rmSync(join(folder, name));
    await until(() => says.test(auditor.status.reason ?? '')); // without anything to sign
    expect(auditor.status.state).toBe('disconnected');
    await expect(store.tree()).rejects.toThrow(says);
    await expect(store.lift('anne', 'why')).rejects.toThrow(TreeUnavailable);
  });

  it('has everything that was signed in tree.db once it is closed in order after its -wal was removed', async () => {
    const log = await openLog();
    await append(log, 0, 5);
    const store = await openStore(log);
    const { auditor, stop } = run(log, store);
    await until(() => auditor.status.checkpoint?.size === 5);
    rmSync(join(folder, 'tree.db-wal'));
    await until(() => auditor.status.state === 'disconnected');
    await stop();
    await store.close();
    const again = await openStore(log);
    expect((await again.latestCheckpoint())?.size).toBe(5);
  });

  it('goes on where its file was moved away and put back', async () => {
    const store = await openStore(await openLog());
    const file = join(folder, 'tree.db');
    renameSync(file, `${file}.elsewhere`);
    await expect(store.tree()).rejects.toThrow(TreeUnavailable);
    renameSync(`${file}.elsewhere`, file);
    await expect(store.tree()).resolves.toMatchObject({ size: 0 });
  });
});

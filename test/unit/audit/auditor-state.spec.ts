import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Auditor } from '../../../src/audit/auditor.js';
import { type AuditorStatus } from '../../../src/audit/auditor-status.js';
import { LogAltered, PublishedTree } from '../../../src/audit/published-tree.js';
import { type Checkpoint, openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { PlantsState } from '../../../src/transparency/plants-state.js';
import { plantKey, stateChangeOf } from '../../../src/transparency/state.js';
import { START } from '../../../src/log/event-log.js';
import { type SignedCheckpoint, type StoredState, TreeMoved } from '../../../src/audit/tree-store.js';
import { parseNote } from '../../../src/transparency/note.js';
import { PackedChanges } from '../../../src/transparency/packed-changes.js';
import { sha256 } from '../../../src/transparency/crypto.js';
import { type TrieEntry, trieRoot } from '../../../src/transparency/trie.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { all } from '../../support/log-events.js';
import { until } from '../../support/waiting.js';
import { signCheckpoint } from '../../../src/transparency/sign.js';

const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('hex');

describe('the state that an auditor signs', () => {
  let log: AuditedLog;
  let ends: (() => Promise<void>)[];
  beforeEach(async () => {
    log = await AuditedLog.open();
    ends = [];
  });
  afterEach(async () => {
    for (const end of ends) await end();
    await log.remove();
  });

  const run = () => {
    const states: AuditorStatus[] = [];
    const stopping = new AbortController();
    const auditor = new Auditor(log.log, log.tree, log.key, {
      now: () => new Date(),
      yieldToLoop: () => nextTurn(),
      patienceMs: 0,
      recheckMs: 3_600_000,
      onState: (one) => states.push(one),
    });
    const running = auditor.run(stopping.signal);
    const stop = async (): Promise<void> => {
      stopping.abort();
      await running;
    };
    ends.push(stop);
    return { auditor, states, stop };
  };
  /** The checkpoint with its state root; the one that is published has three lines. */
  const opened = (stored: SignedCheckpoint | undefined): Checkpoint => {
    const [note = '', state = ''] = [stored?.note, stored?.stateNote];
    const { stateRoot, ...published } = openCheckpoint(state, log.key.name, [log.key]);
    expect(openCheckpoint(note, log.key.name, [log.key])).toEqual(published);
    expect(parseNote(note).text.split('\n')).toHaveLength(4); // the last one ends in a newline
    return { ...published, ...(stateRoot && { stateRoot }) };
  };
  /** Resolves with the last checkpoint once it covers the whole log. */
  const signed = async (): Promise<Checkpoint> => {
    const events = await all(log.log.readAll(START));
    await until(async () => (await log.tree.latestCheckpoint())?.size === events.length);
    return opened(await log.tree.latestCheckpoint());
  };
  /** The root of the state after the first `size` events, by a fold of the log. */
  const folded = async (size: number): Promise<string> => {
    const state = new PlantsState();
    for (const event of (await all(log.log.readAll(START))).slice(0, size)) state.add(event);
    return hex(state.root());
  };

  it('is that of exactly the events of each checkpoint, while the log grows', async () => {
    const { stop } = run();
    const sizes = new Set<number>();
    for (let round = 0; round < 3; round++) {
      await log.fill(700);
      const { size, stateRoot } = await signed();
      expect([size, hex(stateRoot)]).toEqual([size, await folded(size)]);
      sizes.add(size);
    }
    await stop();
    let checkpoints = 0;
    for (
      let next = await log.tree.checkpointFrom(0);
      next;
      next = await log.tree.checkpointFrom(next.size + 1)
    ) {
      const { stateRoot } = opened(next);
      expect([next.size, hex(stateRoot)]).toEqual([next.size, await folded(next.size)]);
      checkpoints += 1;
    }
    expect(checkpoints).toBeGreaterThanOrEqual(sizes.size);
  });

  it('is built from the log where the tree is one of before, or was ahead of it', async () => {
    await log.fill(900);
    await log.sign();
    log.forgetState();
    const first = run();
    await until(() => first.auditor.status.state === 'live');
    await log.fill(100);
    const { size, stateRoot } = await signed();
    expect(hex(stateRoot)).toBe(await folded(size));
    await first.stop();

    await log.fill(300);
    await log.grow(); // the tree alone, as a process leaves it that is killed before it signs
    run();
    const again = await signed();
    expect(hex(again.stateRoot)).toBe(await folded(again.size));
  });

  it('is compared with the log by a recheck: whoever alters the stored state has it signed, but not for long', async () => {
    await log.fill(300);
    await log.sign();
    await log.fill(20);
    const { size, position } = await log.grow();
    // An attacker who can write the file leaves out what these events changed.
    await log.tree.growState({ from: 300, size, position, changes: new Uint8Array() });
    await log.sign();
    const { auditor } = run();
    await until(() => auditor.status.state === 'live');
    auditor.recheckSoon();
    await until(() => auditor.status.state === 'alarm');
    expect(auditor.status.alarm?.message).toMatch(
      /the state that was signed with 320 events is not the one that they come to/,
    );
  });

  it('is an alarm where it is another than the one that was signed, or of more events than the tree', async () => {
    await log.fill(60);
    await log.sign();
    log.tamper('UPDATE state SET hash = zeroblob(32)');
    const { auditor, stop } = run();
    await until(() => auditor.status.state === 'alarm');
    expect(auditor.status.alarm?.message).toMatch(/its state of 60 events has another root/);
    await stop();
    log.tamper('UPDATE state SET size = 61');
    await log.tree.lift('a test', 'to go on');
    const { auditor: second } = run();
    await until(() => second.status.state === 'alarm');
    expect(second.status.alarm?.message).toMatch(/its state is of 61 events, but it has 60 leaves/);
  });

  it('is an alarm where a stored node is altered, or a checkpoint of events that are not there, and nothing is written', async () => {
    await log.fill(300);
    const { auditor } = run();
    await signed();
    const [twig = ''] = ['min', 'max'].map(
      (one) => `(SELECT ${one}(number) FROM state_nodes WHERE length(node) % 72 = 0)`,
    );
    log.tamper(`UPDATE state_nodes SET node = zeroblob(length(node)) WHERE number = ${twig}`);
    auditor.recheckSoon();
    await until(() => auditor.status.state === 'alarm');
    expect(auditor.status.alarm?.message).toMatch(
      /^the stored tree was altered: node \d+ of its state is not/,
    );
    log.forgetState();
    await log.tree.lift('a test', 'to go on');
    await until(() => auditor.status.state === 'live');

    const note = signCheckpoint(
      { origin: 'other', size: 1_000, root: new Uint8Array(32) },
      newSigner('other'),
    );
    log.tamper(
      "INSERT INTO checkpoints VALUES (1000, zeroblob(32), ?, '2026-01-31T12:00:00.000Z', NULL)",
      note,
    );
    const tree = new PublishedTree(
      log.log,
      log.tree,
      () => new Date(),
      () => undefined,
      [log.key],
    );
    await expect(tree.checkpoint()).rejects.toThrow(LogAltered);
    await until(() => auditor.status.state === 'alarm');
    expect(auditor.status.alarm?.message).toMatch(/it has 300 leaves, but 1000 were signed/);
  });
});

describe('a stored state', () => {
  const rootOf = (plants: ReadonlyMap<string, TrieEntry>): string =>
    hex(trieRoot([...plants.values()].sort((one, other) => Buffer.compare(one.key, other.key))));

  it('takes no changes that do not follow it, or go beyond the tree', async () => {
    const log = await AuditedLog.open();
    try {
      await log.fill(10);
      await log.sign();
      const { size, position, root } = await log.tree.state();
      expect(size).toBe(10);
      for (const wrong of [
        { from: 9, size: 10 },
        { from: 10, size: 11 },
      ])
        await expect(log.tree.growState({ ...wrong, position, changes: new Uint8Array() })).rejects.toThrow(
          TreeMoved,
        );
      expect(await log.tree.growState({ from: 10, size: 10, position, changes: new Uint8Array() })).toEqual({
        size,
        position,
        root,
      });
    } finally {
      await log.remove();
    }
  });

  it('has the root of a sorted map after many changes at once, in whatever order, the last one of a key counting', async () => {
    const log = await AuditedLog.open();
    try {
      await log.fill(10);
      await log.sign();
      const { size, position } = await log.tree.state();
      const plants = new Map<string, TrieEntry>();
      for await (const event of log.log.readAll(START)) {
        const change = stateChangeOf(event);
        if (change?.value) plants.set(hex(change.key), { key: change.key, value: change.value });
        else if (change) plants.delete(hex(change.key));
      }
      const grow = (changes: PackedChanges): Promise<StoredState> =>
        log.tree.growState({ from: size, size, position, changes: changes.bytes() });
      expect(hex((await grow(new PackedChanges())).root)).toBe(rootOf(plants));
      for (const round of [1, 2, 3]) {
        const changes = new PackedChanges();
        for (let n = 0; n < 5_000; n++) {
          // Some keys come again: set twice, set and removed, removed and set.
          const owner = sha256(`owner ${(n * 7) % 400}`);
          const key = plantKey(owner, (n * 13 * round) % 9);
          const value = (n + round) % 5 === 0 ? undefined : sha256(`${round} ${n}`);
          changes.add({ key, value });
          if (value) plants.set(hex(key), { key, value });
          else plants.delete(hex(key));
        }
        expect(hex((await grow(changes)).root)).toBe(rootOf(plants));
      }
    } finally {
      await log.remove();
    }
  });

  it('goes on where a change could not be stored, as if it had never been tried', async () => {
    const log = await AuditedLog.open();
    try {
      await log.fill(10);
      await log.sign();
      const before = await log.tree.state();
      // The last of the statements fails, after the nodes were written.
      log.tamper("CREATE INDEX refusing ON state (json(CASE WHEN size > 10 THEN 'no JSON' ELSE '1' END))");
      await log.fill(10);
      await expect(log.sign()).rejects.toThrow('malformed JSON');
      expect(await log.tree.state()).toEqual(before);
      log.tamper('DROP INDEX refusing');
      await log.sign();
      const state = new PlantsState();
      for (const event of await all(log.log.readAll(START))) state.add(event);
      expect(hex((await log.tree.state()).root)).toBe(hex(state.root()));
    } finally {
      await log.remove();
    }
  });
});

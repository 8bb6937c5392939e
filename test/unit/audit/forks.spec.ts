import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openEventStoreDb } from '../../../src/log/eventstoredb/event-log.js';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { Auditor } from '../../../src/audit/auditor.js';
import { openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { EMPTY_ROOT, leafHash, ProofRefused, verifyConsistency } from '../../../src/transparency/merkle.js';
import { RecordedCheckpoints, type RecordingOptions } from '../../../src/audit/recorded-checkpoints.js';
import { formatVerifierKey, verifyNote } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { grown, storedConsistency } from '../../../src/audit/stored-tree.js';
import { type EventLog, LogUnavailable, OutcomeUnknown, START } from '../../../src/log/event-log.js';
import { type TreeStore } from '../../../src/audit/tree-store.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { eventStoreForTests } from '../../support/eventstore-for-tests.js';
import { Faults } from '../../support/domain-faults.js';
import { all, sampleMetadata } from '../../support/log-events.js';
import { alterFile } from '../../support/past-triggers.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';
import { signCheckpoint, type SignerKey } from '../../../src/transparency/sign.js';

const STREAM = 'operation-audit';
const newKey = (): SignerKey => signerKey('plants/test', generateKeyPairSync('ed25519').privateKey);
const nameOf = ({ name, id }: SignerKey): string => `${name}+${id}`;

interface Started {
  readonly auditor: Auditor;
  readonly log: EventLog;
  /** Past the faults of `log`. */
  readonly soundLog: EventLog;
  readonly store: TreeStore;
  readonly logged: readonly string[];
  stop(): Promise<void>;
}

const types = async ({ log }: { readonly log: EventLog }): Promise<string[]> =>
  (await log.readStream(STREAM)).map(({ type }) => type);

const alarmOf = async ({ auditor }: Started): Promise<string> => {
  await until(() => auditor.status.alarm !== undefined);
  return `${auditor.status.alarm?.kind ?? ''}: ${auditor.status.alarm?.message ?? ''}`;
};

/** A DATA_DIR, and the auditors that are started on it one after the other. */
class DataDir {
  readonly folder = temporaryFolder();
  readonly first = newKey();
  plants = 0;
  openLog = (): Promise<EventLog> => openSqliteEventLog(join(this.folder, 'events.db'));
  #running: Started | undefined;

  async start(
    key = this.first,
    recording: Partial<RecordingOptions> = {},
    withFaults: (faults: Faults<EventLog>) => Faults<EventLog> = (faults) => faults,
  ): Promise<Started> {
    const opened = await this.openLog();
    const log = withFaults(new Faults(opened)).port;
    const store = await openSqliteTreeStore(join(this.folder, 'tree.db'), log.identity());
    const logged: string[] = [];
    const auditor = new Auditor(log, store, key, {
      now: () => new Date(),
      yieldToLoop: () => nextTurn(),
      patienceMs: 0,
      recheckMs: 3_600_000,
      recording: { afterMs: 0, everyMs: 0, previousKey: undefined, ...recording },
      onState: () => undefined,
      onWarning: (message) => logged.push(message),
    });
    const stopping = new AbortController();
    const run = auditor.run(stopping.signal);
    const stop = async (): Promise<void> => {
      this.#running = undefined;
      stopping.abort();
      await run;
      await store.close();
      await log.close();
    };
    return (this.#running = { auditor, log, soundLog: opened, store, logged, stop });
  }

  /** At once, so that an auditor sees all of them or none. */
  async add({ log }: Pick<Started, 'log'>, count: number, name = 'n'): Promise<void> {
    const metadata = sampleMetadata({ decidedAt: new Date().toISOString() });
    await Promise.all(
      Array.from({ length: count }, () => {
        const data = { id: this.plants, name, tag: '' };
        const event = { id: randomUUID(), type: 'PlantCreated', data, metadata };
        return log.append(`plant-owner/${this.plants++}`, 'none', [event]);
      }),
    );
  }

  /** Resolves once so many checkpoints are recorded, and everything is signed. */
  async signed(started: Started, records: number): Promise<void> {
    await until(async () => (await types(started)).length >= records);
    await until(() => started.auditor.status.checkpoint?.size === this.plants + records);
    expect(await types(started)).toHaveLength(records);
  }

  /** The first run of all: ten plants, signed and recorded. */
  async before(): Promise<void> {
    const started = await this.start();
    await this.add(started, 10);
    await this.signed(started, 1);
    await started.stop();
  }

  /** A further run after that: five plants more, signed and recorded. Gives the last checkpoint. */
  async after(): Promise<string> {
    const started = await this.start();
    await this.add(started, 5);
    await this.signed(started, 2);
    const kept = (await started.store.latestCheckpoint())?.note ?? '';
    await started.stop();
    return kept;
  }

  snapshot(): void {
    for (const file of ['events.db', 'tree.db'])
      cpSync(join(this.folder, file), join(this.folder, `old-${file}`));
  }

  restoreOlder(...files: ('events.db' | 'tree.db')[]): void {
    for (const file of files) cpSync(join(this.folder, `old-${file}`), join(this.folder, file));
  }

  removeTree(): void {
    rmSync(join(this.folder, 'tree.db'));
  }

  alterEvent(): void {
    alterFile(
      join(this.folder, 'events.db'),
      `UPDATE events SET data = replace(data, '"n"', '"m"') WHERE seq = 4`,
    );
  }

  async remove(): Promise<void> {
    await this.#running?.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Each has a folder of its own, and waits most of the time: an auditor signs once a second. */
const inDataDir = (test: (dir: DataDir) => Promise<void>) => async (): Promise<void> => {
  const dir = new DataDir();
  try {
    await test(dir);
  } finally {
    await dir.remove();
  }
};

describe('checkpoints that are recorded in the log', () => {
  const options = {
    now: () => new Date(),
    yieldToLoop: () => nextTurn(),
    recording: { afterMs: 0, everyMs: 0, previousKey: undefined },
  };
  const never = new AbortController().signal;
  let audited: AuditedLog;
  beforeEach(async () => {
    audited = await AuditedLog.open();
  });
  afterEach(() => audited.remove());
  const recorder = async (recording: Partial<RecordingOptions> = {}): Promise<RecordedCheckpoints> => {
    const { log, tree, key } = audited;
    const one = new RecordedCheckpoints(log, tree, key, {
      ...options,
      recording: { ...options.recording, ...recording },
    });
    expect(await one.compare(never)).toEqual({ contradiction: undefined, isWhole: true });
    return one;
  };

  /** Looks several times whether it is due; all that was added is signed in between. */
  const look = async (recorded: RecordedCheckpoints): Promise<void> => {
    for (let looks = 0; looks < 4; looks++) {
      const { size } = await audited.tree.tree();
      if ((await all(audited.log.readAll(START))).length > size) await audited.sign();
      await recorded.recordIfDue();
    }
  };

  it('are not recorded of an empty log, nor again for what the record itself has added', async () => {
    const recorded = await recorder();
    await audited.sign();
    await recorded.recordIfDue();
    expect(await types(audited)).toEqual([]);
    await audited.fill(3);
    await look(recorded);
    expect(await types(audited)).toEqual(['SigningStarted']);
    await audited.fill(1);
    await look(recorded);
    expect(await types(audited)).toEqual(['SigningStarted', 'CheckpointRecorded']);
  });

  it.each(['signed, and recorded', 'signed, and not yet recorded'])(
    'lead to a warning where the origin is another one than that which was %s',
    async (was) => {
      await audited.fill(3);
      await audited.sign();
      if (was === 'signed, and recorded') await (await recorder()).recordIfDue();
      const { log, tree } = audited;
      const renamed = new RecordedCheckpoints(log, tree, newSigner('renamed.example/log'), options);
      await renamed.compare(never);
      expect(renamed.signing.warnings).toEqual([
        expect.stringMatching(
          /^the log was signed under the origin plants\.example\/log, and this auditor signs under renamed\.example\/log: .*set AUDIT_ORIGIN to plants\.example\/log/,
        ),
      ]);
    },
  );

  it('wait for their time', async () => {
    await audited.fill(3);
    await audited.sign();
    const patient = await recorder({ afterMs: 3_600_000 });
    await patient.recordIfDue();
    expect(await types(audited)).toEqual([]);
    const recorded = await recorder({ everyMs: 3_600_000 });
    await recorded.recordIfDue();
    await audited.fill(10);
    await audited.sign();
    await recorded.recordIfDue();
    expect(await types(audited)).toEqual(['SigningStarted']);
  });

  it('are recorded once by several auditors of one tree', async () => {
    await audited.fill(3);
    await audited.sign();
    const both = [await recorder(), await recorder()];
    await Promise.all(both.map((one) => one.recordIfDue()));
    for (const one of both) await one.recordIfDue();
    expect(await types(audited)).toEqual(['SigningStarted']);
    for (const { signing } of both) expect(signing.recorded?.size).toBe(3);
  });

  /** Fills the log and signs it, and has it record that checkpoint. */
  const recordedAt = async (events: number): Promise<RecordedCheckpoints> => {
    await audited.fill(events);
    await audited.sign();
    const recorded = await recorder();
    await recorded.recordIfDue();
    await audited.sign();
    return recorded;
  };

  it('are compared once the tree holds the events that record them', async () => {
    const recorded = await recordedAt(9);
    expect(await recorded.compare(never)).toEqual({ contradiction: undefined, isWhole: true });
    audited.alter("UPDATE events SET data = replace(data, 'ficus', 'other') WHERE seq = 2");
    audited.forgetTree();
    const [first, ...others] = (await all(audited.log.readAll(START))).map((event) => ({
      hash: leafHash(leafOf(event)),
      position: event.position,
    }));
    if (!first) throw new Error('no event');
    await audited.tree.append(grown(await audited.tree.tree(), [first]));
    expect(await recorded.compare(never)).toEqual({ contradiction: undefined, isWhole: false });
    await audited.tree.append(grown(await audited.tree.tree(), others));
    expect(await recorded.compare(never)).toMatchObject({ contradiction: { kind: 'fork' }, isWhole: true });
  });

  it('show that the tree was altered where the tree itself holds the checkpoint', async () => {
    const recorded = await recordedAt(9);
    audited.tamper('UPDATE tiles SET hashes = zeroblob(length(hashes))');
    expect(await recorded.compare(never)).toMatchObject({
      contradiction: {
        kind: 'tree',
        message:
          'the stored tree was altered: its first 9 leaves have another root than the one that was signed',
      },
    });
  });

  it('are not recorded where the tree has another root', async () => {
    await audited.fill(3);
    await audited.sign();
    const recorded = await recorder();
    audited.tamper('UPDATE tiles SET hashes = zeroblob(96)');
    await recorded.recordIfDue();
    expect(await types(audited)).toEqual([]);
  });
});

describe('an auditor whose files are not those of its last start', () => {
  it.concurrent(
    'goes on without a word where nothing was touched, and says since when it signs',
    inDataDir(async (dir) => {
      await dir.before();
      const started = await dir.start();
      await dir.add(started, 5);
      await dir.signed(started, 2);
      expect(await types(started)).toEqual(['SigningStarted', 'CheckpointRecorded']);
      expect(started.logged).toEqual([]);
      const [begun] = await started.log.readStream(STREAM);
      await until(() => started.auditor.status.signing?.recorded?.size === 16);
      expect(started.auditor.status.signing).toMatchObject({
        key: nameOf(dir.first),
        since: (begun?.metadata as { decidedAt: string }).decidedAt,
        recorded: { size: 16 },
        before: undefined,
        warnings: [],
      });
    }),
  );

  it.concurrent(
    'cannot know that all files were restored to an older state: who kept a checkpoint can',
    inDataDir(async (dir) => {
      await dir.before();
      dir.snapshot();
      const kept = await dir.after();
      dir.restoreOlder('events.db', 'tree.db');
      const [from] = [(dir.plants -= 5)];
      const started = await dir.start();
      await dir.add(started, 8, 'other');
      await dir.signed(started, 2);
      expect([started.logged, started.auditor.status.alarm]).toEqual([[], undefined]);
      const { size, root } = openCheckpoint(kept, 'plants/test', [dir.first]);
      expect(size).toBe(from + 7);
      const now = await started.store.latestCheckpoint();
      const proof = await storedConsistency(started.store, size, now?.size ?? 0);
      expect(() => {
        verifyConsistency({
          first: size,
          second: now?.size ?? 0,
          firstRoot: root,
          secondRoot: now?.root ?? EMPTY_ROOT,
          proof,
        });
      }).toThrow(ProofRefused);
    }),
  );

  it.concurrent(
    'warns where tree.db is gone, and records at once that it signs over a new one',
    inDataDir(async (dir) => {
      await dir.before();
      dir.removeTree();
      const started = await dir.start(dir.first, { afterMs: 3_600_000, everyMs: 3_600_000 });
      await dir.signed(started, 2);
      expect(await types(started)).toEqual(['SigningStarted', 'SigningStarted']);
      expect(started.logged).toEqual([
        expect.stringMatching(
          /^the log records a checkpoint of 10 events, .* and tree\.db was begun after that/,
        ),
      ]);
      await until(() => started.auditor.status.signing?.before !== undefined);
      expect(started.auditor.status.signing?.before?.key).toBe(nameOf(dir.first));
      expect(started.auditor.status.signing?.warnings).toEqual(started.logged);
      await started.stop();
      const later = await dir.start();
      await until(() => later.auditor.status.signing !== undefined);
      expect(later.logged).toEqual([]);
    }),
  );

  it.concurrent(
    'does so on EventStoreDB, whose log is none of the files',
    inDataDir(async (dir) => {
      const server = await eventStoreForTests();
      try {
        dir.openLog = () => openEventStoreDb(server.place, { deadlineMs: 30_000, readDeadlineMs: 3_000 });
        await dir.before();
        dir.removeTree();
        const started = await dir.start(newKey());
        await dir.signed(started, 2);
        expect(started.logged).toEqual([expect.stringMatching(/: the key was changed, lost or replaced/)]);
        await started.stop();
      } finally {
        await dir.remove();
        await server.stop();
      }
    }),
  );

  it.concurrent(
    'refuses to sign where tree.db is gone and an event is another, also once the alarm is lifted',
    inDataDir(async (dir) => {
      await dir.before();
      dir.removeTree();
      dir.alterEvent();
      const started = await dir.start();
      const alarm = await alarmOf(started);
      expect(alarm).toMatch(
        /^fork: the log records at position \d+ that plants\/test\+\w+ had signed 10 events by .*, and its first 10 events have another root now/,
      );
      expect(await started.store.latestCheckpoint()).toBeUndefined();
      await started.store.lift('anne', 'a mistake');
      await until(async () => (await started.store.alarm()) !== undefined);
      expect(await started.store.latestCheckpoint()).toBeUndefined();
      expect(await types(started)).toHaveLength(1);
    }),
  );

  it.concurrent(
    'refuses to sign it also where the log was read again while the tree was being built',
    inDataDir(async (dir) => {
      const log = await dir.openLog();
      await dir.add({ log }, 150); // before an auditor runs: it records nothing before it has signed all of them
      await log.close();
      const first = await dir.start();
      await dir.signed(first, 1);
      await first.stop();
      dir.removeTree();
      dir.alterEvent();
      const running: { auditor?: Auditor } = {};
      // The tree comes no further than the first batch before that is read again.
      const again = await dir.start(dir.first, {}, (faults) =>
        faults.every('subscribe', async function* (proceed, ...args) {
          for await (const batch of proceed(...args)) {
            yield batch;
            await until(() => args[1].aborted || running.auditor?.status.recheckedAt !== undefined);
          }
        }),
      );
      running.auditor = again.auditor;
      expect(await alarmOf(again)).toMatch(/^fork: .* had signed 150 events by .* have another root now/);
      expect(await again.store.latestCheckpoint()).toBeUndefined();
    }),
  );

  it.concurrent(
    'refuses to sign where a stored checkpoint is by a key that the log does not record',
    inDataDir(async (dir) => {
      await dir.before();
      const other = newKey();
      const log = await dir.openLog();
      const store = await openSqliteTreeStore(join(dir.folder, 'tree.db'), log.identity());
      const last = await store.latestCheckpoint();
      await store.close();
      await log.close();
      const note = signCheckpoint(openCheckpoint(last?.note ?? '', 'plants/test', [dir.first]), other);
      alterFile(join(dir.folder, 'tree.db'), `UPDATE checkpoints SET note = '${note}' WHERE size = 11`);
      const started = await dir.start();
      expect(await alarmOf(started)).toBe(
        `tree: the stored tree was altered: the checkpoint of 11 is not the one that was signed: it is signed by "${nameOf(other)}", and by none of the known keys: "${nameOf(dir.first)}"`,
      );
    }),
  );

  it.concurrent(
    'takes stored checkpoints of all keys that the log records',
    inDataDir(async (dir) => {
      await dir.before();
      const second = newKey();
      // Hourly: the three plants may be signed one by one, and each would be recorded.
      const changed = await dir.start(second, { everyMs: 3_600_000 });
      await dir.add(changed, 3);
      await dir.signed(changed, 2);
      await changed.stop();
      const later = await dir.start(second);
      await until(() => later.auditor.status.recheckedAt !== undefined);
      expect(later.auditor.status.alarm).toBeUndefined();
    }),
  );

  it.concurrent(
    'refuses to sign where tree.db is gone and the log holds less than was signed',
    inDataDir(async (dir) => {
      const started = await dir.start(dir.first, { afterMs: 3_600_000 });
      await dir.add(started, 3);
      const note = signCheckpoint({ origin: dir.first.name, size: 9, root: Buffer.alloc(32, 7) }, dir.first);
      const data = { key: formatVerifierKey(dir.first), note, treeSince: '2026-01-01T00:00:00.000Z' };
      const event = {
        id: randomUUID(),
        type: 'SigningStarted',
        data,
        metadata: sampleMetadata({ decidedAt: new Date().toISOString() }),
      };
      await until(() => started.auditor.status.checkpoint?.size === 3);
      await started.stop();
      dir.removeTree();
      const log = await openSqliteEventLog(join(dir.folder, 'events.db'));
      await log.append(STREAM, 'none', [event]);
      await log.close();
      const again = await dir.start();
      expect(await alarmOf(again)).toMatch(
        /^fork: .* had signed 9 events by .*, and holds only 4: some were taken out/,
      );
    }),
  );

  it.concurrent(
    'warns of another key, whoever put it there, and records that the one before did not sign the change',
    inDataDir(async (dir) => {
      await dir.before();
      const second = newKey();
      const started = await dir.start(second);
      await dir.signed(started, 2);
      expect(started.logged).toEqual([
        expect.stringMatching(
          /, and this auditor signs with plants\/test\+\w+: the key was changed, lost or replaced/,
        ),
      ]);
      await until(() => started.auditor.status.signing?.before !== undefined);
      expect(started.auditor.status.signing).toMatchObject({
        key: nameOf(second),
        before: { key: nameOf(dir.first), confirmed: false },
      });
      const last = (await started.store.latestCheckpoint())?.note ?? '';
      expect(openCheckpoint(last, 'plants/test', [second]).size).toBe(12);
    }),
  );

  it.concurrent(
    'has the change of the key signed by the one before, where that is still there',
    inDataDir(async (dir) => {
      await dir.before();
      const second = newKey();
      const started = await dir.start(second, { previousKey: dir.first });
      await dir.signed(started, 2);
      const [, change] = await started.log.readStream(STREAM);
      const { key, note } = change?.data as { key: string; note: string };
      expect(started.logged).toEqual([
        expect.stringMatching(/, which the key before confirms in the log: give auditors both keys/),
      ]);
      expect(key).toBe(formatVerifierKey(second));
      expect(verifyNote(note, [dir.first, second]).keys).toHaveLength(2);
      await until(() => started.auditor.status.signing?.before !== undefined);
      expect(started.auditor.status.signing?.before).toMatchObject({
        key: nameOf(dir.first),
        confirmed: true,
      });
      await dir.add(started, 2);
      await dir.signed(started, 3);
      const [, , further] = await started.log.readStream(STREAM);
      expect(() => verifyNote((further?.data as { note: string }).note, [dir.first])).toThrow(
        'none of the known keys',
      );
    }),
  );

  it.concurrent(
    'warns where tree.db and the key are gone, and signs with the new key what the old one contradicts',
    inDataDir(async (dir) => {
      await dir.before();
      dir.removeTree();
      dir.alterEvent();
      const started = await dir.start(newKey());
      await dir.signed(started, 2);
      expect(started.logged).toEqual([
        expect.stringMatching(/: the key was changed, lost or replaced/),
        expect.stringMatching(/ had signed 10 events by .*, and its first 10 events have another root now/),
      ]);
      expect(started.auditor.status.alarm).toBeUndefined();
    }),
  );

  it.concurrent(
    'warns where tree.db was restored to an older state, and goes on from the log',
    inDataDir(async (dir) => {
      await dir.before();
      dir.snapshot();
      await dir.after();
      dir.restoreOlder('tree.db');
      // A slow machine signs on the way, too, and would record that after no time at all.
      const started = await dir.start(undefined, { everyMs: 3_600_000 });
      await dir.signed(started, 3);
      expect(await types(started)).toEqual(['SigningStarted', 'CheckpointRecorded', 'SigningStarted']);
      expect(started.logged).toEqual([
        expect.stringMatching(/checkpoint of 16 events, .*, which tree\.db does not hold: it was restored/),
      ]);
    }),
  );

  it.concurrent(
    'raises the alarm where events.db was restored to an older state than tree.db',
    inDataDir(async (dir) => {
      await dir.before();
      dir.snapshot();
      await dir.after();
      dir.restoreOlder('events.db');
      const started = await dir.start();
      expect(await alarmOf(started)).toMatch(
        /^shorter: the log ends after 11 events, but 17 were put in the tree/,
      );
    }),
  );

  it.concurrent(
    'passes over what stands among the records and is none, with a warning',
    inDataDir(async (dir) => {
      await dir.before();
      const log = await openSqliteEventLog(join(dir.folder, 'events.db'));
      const note = signCheckpoint({ origin: dir.first.name, size: 2, root: Buffer.alloc(32, 7) }, newKey());
      const forged = { key: formatVerifierKey(dir.first), note, treeSince: 'then' };
      const metadata = sampleMetadata({ decidedAt: new Date().toISOString() });
      await log.append(STREAM, 0n, [
        { id: randomUUID(), type: 'CheckpointRecorded', data: forged, metadata },
        { id: randomUUID(), type: 'CheckpointForgotten', data: {}, metadata },
      ]);
      await log.close();
      const started = await dir.start();
      // The log may be read again before the tree has come to these events.
      await until(() => started.auditor.status.recheckedAt !== undefined && started.logged.length >= 2);
      expect(started.logged).toEqual([
        expect.stringMatching(
          /^event 1 of operation-audit, .* no recorded checkpoint that can be used: .*by none of the known keys/,
        ),
        expect.stringMatching(/^event 2 of operation-audit, .*unknown type "CheckpointForgotten"/),
      ]);
      expect(started.auditor.status.alarm).toBeUndefined();
    }),
  );

  for (const failure of [new LogUnavailable('its disk is full'), new OutcomeUnknown('no answer')])
    it.concurrent(
      `signs on where the log takes no record, and says so: ${failure.name}`,
      inDataDir(async (dir) => {
        const started = await dir.start(dir.first, {}, (faults) =>
          faults.next('append', () => Promise.reject(failure)),
        );
        await dir.add({ log: started.soundLog }, 3);
        await until(() => started.logged.length > 0);
        expect(started.logged).toEqual([
          `the last checkpoint cannot be recorded in the log: ${failure.message}`,
        ]);
        await dir.add({ log: started.soundLog }, 3);
        await until(() => started.auditor.status.checkpoint?.size === 6);
        expect(started.auditor.status.state).toBe('live');
      }),
    );
});

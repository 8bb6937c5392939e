import assert from 'node:assert/strict';
import {
  copyFileSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { openSqliteEventLog, toPosition } from '../../src/adapters/sqlite/event-log.js';
import { openSqliteTreeStore } from '../../src/adapters/sqlite/tree-store.js';
import { Auditor, type AuditorStatus } from '../../src/audit/auditor.js';
import { BundleRefused } from '../../src/audit/bundle.js';
import { checkBundle } from '../../src/audit/check.js';
import { signCheckpoint } from '../../src/audit/checkpoint.js';
import { leafOf } from '../../src/audit/leaf.js';
import { bundleOf, type BundleQuestion, ExportRefused } from '../../src/audit/make-bundle.js';
import { GrowingTree, leafHash } from '../../src/audit/merkle.js';
import { formatVerifierKey } from '../../src/audit/signed-note.js';
import { grown, type NewLeaf } from '../../src/audit/stored-tree.js';
import { bytesIn } from '../../src/operate/check-files.js';
import { plantStream } from '../../src/plants/stream.js';
import { type EventLog, type Position, START } from '../../src/ports/event-log.js';
import { type TreeStore } from '../../src/ports/tree-store.js';
import { alterLog, type Alteration, isTextOnly, randomOf } from './altered-log.js';
import { newSigner } from './audited-log.js';
import { runCli } from './http-cli.js';
import { newEvent } from './log-events.js';

/** What `alterLog` takes from the end, at most: so many events and one more make the altered log the longer one. */
const MOST_DELETED = 3;

/** Moves an event and changes nothing else: no bundle tells, since positions are the engine's own. */
const ONLY_MOVES = 'moves the last event';

const WHOLE: BundleQuestion = { from: undefined, owner: undefined };

const key = newSigner();

const never = (): AbortSignal => new AbortController().signal;

const leavesAfter = async (log: EventLog, position: Position): Promise<NewLeaf[]> => {
  const leaves: NewLeaf[] = [];
  for await (const event of log.readAll(position))
    leaves.push({ hash: leafHash(leafOf(event)), position: event.position });
  return leaves;
};

/** What an auditor of the service comes to on a log. */
const audited = async (
  log: EventLog,
  store: TreeStore,
  done: (status: AuditorStatus) => boolean,
): Promise<AuditorStatus> => {
  const auditor = new Auditor(log, store, key, {
    now: () => new Date(),
    giveWay: () => nextTurn(),
    patienceMs: 0,
    recheckMs: 3_600_000,
    onState: () => undefined,
  });
  const stopping = new AbortController();
  const running = auditor.run(stopping.signal);
  while (!done(auditor.status)) await delay(2);
  stopping.abort();
  await running;
  return auditor.status;
};

/**
 * A log that was signed, of which copies are altered by hand. Each alteration has to be seen, and the event to be named,
 * by whoever looks: what is not seen is an AssertionError.
 */
export class AlteredRun {
  readonly #folder = mkdtempSync(join(tmpdir(), 'plants-altered-'));
  readonly #random: (below: number) => number;
  readonly #opened: { close(): Promise<void> }[] = [];
  #leaves: NewLeaf[] = [];
  #earlier = '';
  #nth = 0;

  private constructor(
    private readonly events: number,
    seed: number,
  ) {
    this.#random = randomOf(seed);
  }

  /** Makes a log of so many events, and has it signed. */
  static async of(events: number, seed: number): Promise<AlteredRun> {
    const run = new AlteredRun(events, seed);
    const log = await run.#openLog('events.db');
    const appends: Promise<unknown>[] = [];
    for (let id = 1; id <= events; id++) {
      const event = { ...newEvent({ id, name: `n${id}`, tag: '' }), type: 'PlantCreated' };
      appends.push(log.append(plantStream(`owner ${id % 50}`, id), 'none', [event]));
      if (appends.length === 1_000) await Promise.all(appends.splice(0));
    }
    await Promise.all(appends);
    run.#leaves = await leavesAfter(log, START);
    const store = await run.#openStore('tree.db', log);
    await audited(log, store, ({ checkpoint }) => checkpoint?.size === events);
    run.#earlier = (await store.latestCheckpoint())?.note ?? '';
    await run.#export(log, store, WHOLE, 'earlier.ndjson');
    await run.#closeAll();
    return run;
  }

  /**
   * Makes one alteration more, in the next of the ways that there are, and has it looked for. `whole`: also in bundles of
   * all events, and against the bundle that was kept, which names the event. `commands`: also by `plants export` and
   * `plants check`. Gives the way.
   */
  async next(also: { readonly whole: boolean; readonly commands: boolean }): Promise<string> {
    for (const suffix of ['', '-wal', '-shm']) rmSync(this.#file(`altered.db${suffix}`), { force: true });
    copyFileSync(this.#file('events.db'), this.#file('altered.db'));
    const alteration = alterLog(this.#file('altered.db'), this.events, this.#nth++, this.#random);
    const log = await this.#openLog('altered.db');
    await this.#isSeenByTheService(log, alteration);
    const textOnly = isTextOnly(alteration.way);
    if (also.whole && !textOnly) await this.#isSeenByTheExport(log, alteration);
    if (!textOnly) await this.#isSeenByTheCheck(log, alteration, also.whole);
    await this.#closeAll();
    if (also.commands && !textOnly) await this.#isSeenByTheCommands(alteration);
    return alteration.way;
  }

  async remove(): Promise<void> {
    await this.#closeAll();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** By the running service, which reads the log again. */
  async #isSeenByTheService(log: EventLog, { way, index }: Alteration): Promise<void> {
    copyFileSync(this.#file('tree.db'), this.#file('stale.db'));
    const store = await this.#openStore('stale.db', log);
    const { alarm } = await audited(
      log,
      store,
      ({ state, recheckedAt }) => state === 'alarm' || recheckedAt !== undefined,
    );
    if (isTextOnly(way)) {
      assert.deepEqual([way, alarm?.kind, alarm?.position], [way, 'contradiction', toPosition(index + 1)]);
      return;
    }
    // A moved event is new to who goes on from where it was: then that one is too many.
    const found = way === ONLY_MOVES ? Math.min(alarm?.index ?? -1, index) : alarm?.index;
    assert.deepEqual([way, found], [way, index]);
    assert.match(alarm?.message ?? '', /^(event at index|the log ends after) \d+/);
  }

  /** By who makes a bundle, where the tree is the one that was signed. */
  async #isSeenByTheExport(log: EventLog, { way, index }: Alteration): Promise<void> {
    const store = await this.#openStore('tree.db', log);
    const making = this.#export(log, store, WHOLE, 'bundle.ndjson');
    if (way === ONLY_MOVES) await making;
    else
      await assert.rejects(making, (error: Error) => {
        assert.ok(error instanceof ExportRefused, way);
        assert.match(error.message, new RegExp(`^(the log ends before )?event ${index}\\b`));
        return true;
      });
  }

  /** By who has kept a checkpoint, although all of the tree was made anew, and signed with the same key. */
  async #isSeenByTheCheck(log: EventLog, { way, index }: Alteration, whole: boolean): Promise<void> {
    for (let more = 0; more <= MOST_DELETED; more++)
      await log.append(plantStream('later', more), 'none', [newEvent()]);
    const store = await this.#signedAnew(log, index);
    const question = whole ? WHOLE : { ...WHOLE, from: String(this.events) };
    await this.#export(log, store, question, 'bundle.ndjson');
    if (way === ONLY_MOVES) {
      await this.#check('bundle.ndjson');
      return;
    }
    await assert.rejects(this.#check('bundle.ndjson'), (error: Error) => {
      assert.ok(error instanceof BundleRefused, way);
      assert.match(error.message, /the first \d+ events are not those that were signed before: the log was/);
      return true;
    });
    if (whole) await assert.rejects(this.#check('bundle.ndjson', 'earlier.ndjson'), { index });
  }

  /** The same by the commands. */
  async #isSeenByTheCommands({ way }: Alteration): Promise<void> {
    const folder = this.#file('data');
    mkdirSync(folder);
    copyFileSync(this.#file('forged.db'), join(folder, 'tree.db'));
    copyFileSync(this.#file('altered.db'), join(folder, 'events.db'));
    const [bundle, earlier] = [join(folder, 'bundle.ndjson.gz'), join(folder, 'earlier.checkpoint')];
    writeFileSync(earlier, this.#earlier);
    const exported = await runCli(['export', '--out', bundle], { DATA_DIR: folder });
    assert.deepEqual([way, exported.status], [way, 0]);
    const proof = ['check', bundle, '--key', formatVerifierKey(key)];
    assert.equal((await runCli(proof, {})).status, 0); // it is well signed
    const { status, stdout } = await runCli([...proof, '--against', earlier], {});
    assert.equal(status, way === ONLY_MOVES ? 0 : 1);
    assert.match(stdout, way === ONLY_MOVES ? /^proven/ : /^refused: .*: the log was altered/);
    rmSync(folder, { recursive: true });
  }

  /** What somebody does who has the key: makes a tree of the log as it is now, and signs that. */
  async #signedAnew(log: EventLog, unaltered: number): Promise<TreeStore> {
    if (existsSync(this.#file('forged.db'))) rmSync(this.#file('forged.db'));
    const store = await this.#openStore('forged.db', log);
    const others = await leavesAfter(log, unaltered === 0 ? START : toPosition(unaltered));
    const growth = grown(await store.tree(), [...this.#leaves.slice(0, unaltered), ...others]);
    await store.append(growth);
    const { size } = growth.tree;
    const root = new GrowingTree(growth.tree).root();
    const note = signCheckpoint({ origin: key.name, size, root }, key);
    await store.saveCheckpoint({ size, root, note, signedAt: '2026-01-31T12:00:00.000Z' });
    return store;
  }

  async #export(log: EventLog, store: TreeStore, question: BundleQuestion, to: string): Promise<void> {
    const bundle = bundleOf(log, store, question, () => undefined, never());
    await pipeline(Readable.from(bundle, { objectMode: false }), createWriteStream(this.#file(to)));
  }

  async #check(bundle: string, previous?: string): Promise<void> {
    await checkBundle(
      {
        bundle: () => bytesIn(this.#file(bundle)),
        keys: [key],
        against: Buffer.from(this.#earlier),
        previous: previous === undefined ? undefined : () => bytesIn(this.#file(previous)),
      },
      () => undefined,
    );
  }

  #file(name: string): string {
    return join(this.#folder, name);
  }

  async #openLog(name: string): Promise<EventLog> {
    const log = await openSqliteEventLog(this.#file(name));
    this.#opened.push(log);
    return log;
  }

  async #openStore(name: string, log: EventLog): Promise<TreeStore> {
    const store = await openSqliteTreeStore(this.#file(name), log.identity());
    this.#opened.push(store);
    return store;
  }

  async #closeAll(): Promise<void> {
    for (let one = this.#opened.pop(); one; one = this.#opened.pop()) await one.close();
  }
}

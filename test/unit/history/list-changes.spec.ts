import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ChangesOfLists, type ListChange, type ListChanges } from '../../../src/history/list-changes.js';
import { encodeOwner, erasureStream, ERASURES_STREAM, plantStream } from '../../../src/domain/stream.js';
import { type EventLog, LogUnavailable, type Position, START } from '../../../src/log/event-log.js';
import { type PlantCommand } from '../../../src/domain/plant.js';
import { operationEvent } from '../../../src/commands/record-rebuilds.js';
import { Faults } from '../../support/domain-faults.js';
import { appendRaw, NOON, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { until } from '../../support/waiting.js';

/** Has something to encode in it. */
const ANNE = 'anne@example.org';

let stores: Stores;
let log: Faults<EventLog>;
let writer: EventLog;
let over: AbortController;
let changes: ChangesOfLists;
let open: Followed[];
beforeEach(async () => {
  stores = new Stores();
  writer = await stores.log();
  log = new Faults(await stores.log());
  over = new AbortController();
  changes = new ChangesOfLists(log.port);
  open = [];
});
afterEach(async () => {
  over.abort();
  await Promise.all(open.map(({ ended }) => ended));
  await stores.remove();
});

/** A follower that keeps what it is given. */
class Followed {
  readonly changes: ListChange[] = [];
  readonly steps: ListChanges[] = [];
  /** Resolves with why it has ended. */
  readonly ended: Promise<unknown>;
  /** While it is set, the follower asks for nothing more. */
  held: Promise<void> | undefined;

  constructor(owner: string, after?: Position, from = changes) {
    this.ended = this.#run(from.follow(owner, after, over.signal)).then(
      () => 'ended',
      (error: unknown) => error,
    );
    open.push(this);
  }

  async begun(): Promise<this> {
    await until(() => this.steps.length > 0);
    return this;
  }

  /** In one word each. */
  get told(): string[] {
    return this.changes.map((change) => {
      if (change.type === 'reload') return 'reload';
      return change.type === 'added' ? `+${change.plant.id}` : `-${change.id}`;
    });
  }

  async #run(steps: AsyncIterable<ListChanges>): Promise<void> {
    for await (const step of steps) {
      this.steps.push(step);
      this.changes.push(...step.changes);
      await this.held;
    }
  }
}

const happens = async (command: PlantCommand, owner = ANNE): Promise<Position> =>
  (await run(writer, owner, command)).position;
const tells = async (followed: Followed, ...told: string[]): Promise<void> => {
  await until(
    () => followed.told.length >= told.length,
    () => followed.told,
  );
  expect(followed.told).toEqual(told);
};

describe('changes of a list', () => {
  it('are those of the owner alone, with their positions, from now on', async () => {
    const before = await happens(createPlant(1));
    const anne = await new Followed(ANNE).begun();
    expect(anne.steps[0]).toEqual({ changes: [], position: before, waiting: undefined });
    await happens(createPlant(1), 'bob');
    await happens(createPlant(2), `${ANNE}x`);
    const added = await happens(createPlant(3, 'Φίκος', 'tall'));
    const deleted = await happens(deletePlant(1));
    await tells(anne, '+3', '-1');
    expect(anne.changes).toEqual([
      { type: 'added', plant: { id: 3, name: 'Φίκος', tag: 'tall' }, position: added },
      { type: 'deleted', id: 1, position: deleted },
    ]);
    expect(anne.steps.at(-1)?.position).toBe(deleted);
  });

  it('of an empty log begin with the first event', async () => {
    const anne = await new Followed(ANNE).begun();
    expect(anne.steps[0]?.position).toBe(START);
    await happens(createPlant(1));
    await tells(anne, '+1');
  });

  it('resume after a position, without a gap and nothing twice', async () => {
    const positions: Position[] = [];
    for (const id of [1, 2, 3, 4]) positions.push(await happens(createPlant(id)));
    await happens(createPlant(1), 'bob');
    const anne = new Followed(ANNE, positions[1]);
    const all = new Followed(ANNE, START);
    await tells(anne, '+3', '+4');
    await happens(createPlant(5));
    await tells(anne, '+3', '+4', '+5');
    await tells(all, '+1', '+2', '+3', '+4', '+5');
  });

  it('come by one reading of the log, however many follow it, which ends with the last of them', async () => {
    const followers = await Promise.all(Array.from({ length: 20 }, () => new Followed(ANNE).begun()));
    await happens(createPlant(1));
    for (const each of followers) await tells(each, '+1');
    expect(log.calls('subscribe')).toBe(1);
    over.abort();
    await Promise.all(followers.map(({ ended }) => ended));
    over = new AbortController();
    const again = await new Followed(ANNE).begun();
    await happens(createPlant(2));
    await tells(again, '+2');
    expect(log.calls('subscribe')).toBe(2);
  });

  it('wait for a slow follower up to a bound, beyond which it reads them itself, in order', async () => {
    const [slow, quick] = [await new Followed(ANNE).begun(), await new Followed(ANNE).begun()];
    let go: () => void = () => undefined;
    slow.held = new Promise((resolve) => (go = resolve));
    await happens(createPlant(0));
    await tells(slow, '+0'); // and is held
    const ids = Array.from({ length: 700 }, (_, index) => index + 1);
    for (let first = 0; first < ids.length; first += 100)
      await Promise.all(ids.slice(first, first + 100).map((id) => happens(createPlant(id))));
    await until(() => quick.changes.length === 701);
    slow.held = undefined;
    go();
    await until(() => slow.changes.length >= 701);
    expect(slow.changes).toEqual(quick.changes);
  });

  it('too far back to be read in time are a reload, and go on from there', async () => {
    for (const id of [1, 2]) await happens(createPlant(id));
    const impatient = new ChangesOfLists(log.port, -1);
    log.every('subscribe', async function* (proceed, after, signal) {
      for await (const { events } of proceed(after, signal))
        for (const event of events) yield { events: [event], position: event.position, caughtUp: false };
    });
    const far = await happens(createPlant(3), 'bob');
    const anne = new Followed(ANNE, START, impatient);
    await until(() => anne.told.includes('reload'));
    await happens(createPlant(4));
    await tells(anne, '+1', 'reload', '+4');
    expect(anne.changes[1]).toEqual({ type: 'reload', position: far });
  });

  it('that cannot be read are a reload', async () => {
    const anne = await new Followed(ANNE).begun();
    await appendRaw(writer, plantStream(ANNE, 1), 'PlantPainted', {});
    await happens(createPlant(2));
    await tells(anne, 'reload', '+2');
  });

  it('end when the owner is erased, and are a reload for who resumes after that', async () => {
    const position = await happens(createPlant(1));
    const [anne, bob] = [await new Followed(ANNE).begun(), await new Followed('bob').begun()];
    const erasure = '0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11';
    const key = Buffer.alloc(32).toString('base64');
    const append = (stream: string, event: Parameters<typeof operationEvent>[2]) =>
      writer.append(stream, 'none', [
        operationEvent(stream, undefined, event, { actor: { sub: 'o' }, correlationId: 'c' }, NOON),
      ]);
    await append(ERASURES_STREAM, {
      type: 'ErasureStarted',
      data: { erasure, ownerHash: key, reason: 'r' },
    });
    await append(erasureStream(erasure), {
      type: 'ErasureOrdered',
      data: { owner: encodeOwner(ANNE), key },
    });
    expect(await anne.ended).toBe('ended');
    await happens(createPlant(1), 'bob');
    await tells(bob, '+1');
    await tells(new Followed(ANNE, position), 'reload');
  });

  it('go on when the log is back, without a gap, and say that they wait', async () => {
    let broken = false;
    log.every('subscribe', async function* (proceed, after, signal) {
      for await (const batch of proceed(after, signal)) {
        if (broken) throw new LogUnavailable('no leader');
        yield batch;
      }
    });
    const anne = await new Followed(ANNE).begun();
    await happens(createPlant(1));
    await tells(anne, '+1');
    broken = true;
    await happens(createPlant(2));
    await until(() => anne.steps.some(({ waiting }) => waiting !== undefined));
    broken = false;
    await tells(anne, '+1', '+2');
    expect(anne.steps.at(-1)?.waiting).toBeUndefined();
  });

  it('end with a mistake of ours for all, and begin again for who comes then', async () => {
    const mistake = new TypeError('no function');
    let broken = true;
    log.every('subscribe', async function* (proceed, after, signal) {
      for await (const batch of proceed(after, signal)) {
        if (broken && batch.events.length > 0) throw mistake;
        yield batch;
      }
    });
    const followers = await Promise.all([new Followed(ANNE).begun(), new Followed('bob').begun()]);
    await happens(createPlant(1));
    expect(await Promise.all(followers.map(({ ended }) => ended))).toEqual([mistake, mistake]);
    broken = false;
    const anne = await new Followed(ANNE).begun();
    await happens(createPlant(2));
    await tells(anne, '+2');
  });

  it('are refused where the log cannot be reached at the beginning, and can be had later', async () => {
    log.next('head', () => Promise.reject(new LogUnavailable('no leader')));
    expect(await new Followed(ANNE).ended).toBeInstanceOf(LogUnavailable);
    const anne = await new Followed(ANNE).begun();
    await happens(createPlant(1));
    await tells(anne, '+1');
  });
});

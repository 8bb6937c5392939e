import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { Interrupted } from '../../../src/cli/interrupted.js';
import { status, watchStatus } from '../../../src/cli/commands/status.js';
import { readStatus } from '../../../src/operations/status.js';
import { SystemStatus } from '../../../src/operations/system-status.js';
import { ERASURES_STREAM, plantStream } from '../../../src/plants/stream.js';
import { type Position, START } from '../../../src/ports/event-log.js';
import {
  type Generation,
  GenerationMissing,
  PARTITIONS,
  partitionOf,
  ReadModelUnavailable,
} from '../../../src/ports/read-model.js';
import { operationEvent, skipEvent } from '../../../src/write/rebuilds.js';
import { failing, Faults } from '../../support/domain-faults.js';
import { appendRaw, NOON, noon, run } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { sampleMetadata } from '../../support/log-events.js';
import { Office, OLGA, uncounted } from './command-for-tests.js';
import { until } from '../../support/waiting.js';

describe('the status', () => {
  let office: Office;
  const terminal = process.stdout.isTTY;

  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  const live = async (generation: Generation): Promise<void> =>
    office.tell({ state: 'live', since: NOON, generation, position: await office.log.head() });

  it('of a new system says what is missing', async () => {
    expect(await status(office.desk())).toBe(false);
    expect(office.out).toContain(
      'PROBLEM  nothing projects: no process tells about itself; none runs, or none can write to the read model (is its disk full?)\n',
    );
    expect(office.out).toContain('PROBLEM  no list is answered: ');
    expect(office.out).toMatch(/^log +head empty$/m);
    expect(office.out).toMatch(/^lists +0 s behind, 0 events$/m);
    expect(office.out).toMatch(/^rebuild +none$/m);
  });

  it('of a system where all is well says so, and how it stands', async () => {
    await run(office.log, 'anne', createPlant(1));
    await live(await office.answer());
    expect(await status(office.desk())).toBe(true);
    expect(office.out).toMatch(/^all is well\n/);
    expect(office.out).toMatch(/^oak\/7 +api,projector +1\.2\.3 +http:\S+ +0 s +live +0*1 +yes$/m);
    expect(office.out).toMatch(/^1 +yes +0*1 +0*1 +0 of 64$/m);
  });

  it('shows a generation that nothing was put into yet, and a process that leaves projecting to others', async () => {
    await run(office.log, 'anne', createPlant(1));
    await office.model.createGeneration();
    await office.tellText(
      'three',
      JSON.stringify({
        host: 'ash',
        pid: 9,
        roles: ['api'],
        version: '1.2.3',
        address: 'http://127.0.0.1:8081',
        since: NOON.toISOString(),
        projector: null,
        rebuild: null,
      }),
    );
    await status(office.desk());
    expect(office.out).toMatch(/^1 +- +start +start +64 of 64$/m);
    expect(office.out).toMatch(/^ash\/9 .* - +- +-$/m);
  });

  it('shows how far the slowest and the fastest part of the lists are', async () => {
    await office.answer();
    const owners = Array.from({ length: 1_000 }, (_, number) => `owner ${number}`);
    const generation = 1 as Generation;
    const applied = async (partition: number): Promise<Position> => {
      const owner = owners.find((one) => partitionOf(one) === partition) ?? '';
      const { position } = await run(office.log, owner, createPlant(1));
      const row = { position, owner, id: 1, row: '{}' };
      const upTo = { position, event: owner };
      await office.model.apply(generation, [{ partition, from: START, upTo, changes: [row] }]);
      return position;
    };
    await applied(0);
    const fastest = await applied(7);
    const { generations } = await readStatus(office.desk());
    expect(generations).toEqual([
      { generation, active: true, slowest: START, fastest, behind: PARTITIONS - 1, problem: null },
    ]);
  });

  it('is painted in place on a terminal, line by line, so that nothing of the last one stays', async () => {
    await live(await office.answer());
    Object.defineProperty(process.stdout, 'isTTY', { value: true, configurable: true });
    try {
      const watching = watchStatus(office.desk());
      await until(() => office.out !== '');
      office.interrupt(new Interrupted('enough'));
      await watching;
    } finally {
      Object.defineProperty(process.stdout, 'isTTY', { value: terminal, configurable: true });
    }
    expect(office.out).toMatch(/^\x1b\[Hall is well\x1b\[K\n/);
    expect(office.out.endsWith('\x1b[K\n\x1b[J')).toBe(true);
  });

  it('counts no events where the positions of the log do not tell', async () => {
    const desk = office.desk({ log: uncounted(office.log) });
    await office.answer();
    expect((await readStatus(desk)).lag).toEqual({ seconds: 0, events: null });
    await run(office.log, 'anne', createPlant(1));
    const later = { ...desk, now: () => new Date(NOON.getTime() + 90_000) };
    expect((await readStatus(later)).lag).toEqual({ seconds: 90, events: null });
    await office.requested();
    expect((await readStatus(desk)).rebuild).toMatchObject({ phase: 'waiting', events: null, total: null });
    await status(desk);
    expect(office.out).toMatch(/^lists +0 s behind$/m);
    expect(office.out).toMatch(/^rebuild +\S+: waiting$/m);
  });

  it('does not know the age of an event that does not say when it was decided', async () => {
    await office.answer();
    for (const [revision, metadata] of [null, {}, { decidedAt: 'at noon' }].entries()) {
      const stream = `${plantStream('anne', 1)}${revision}`;
      await office.log.append(stream, 'none', [
        { id: sampleMetadata().causationId, type: 'PlantWatered', data: {}, metadata: metadata as never },
      ]);
    }
    expect((await readStatus(office.desk())).lag).toEqual({ seconds: null, events: 3 });
    await status(office.desk());
    expect(office.out).toMatch(/^lists +behind for an unknown time, 3 events$/m);
  });

  it('knows no age where what the lists lack is not in the log: it was put back', async () => {
    await office.answer();
    const log = new Faults(office.log).every('head', () =>
      Promise.resolve('9'.padStart(16, '0') as never),
    ).port;
    expect((await readStatus(office.desk({ log }))).lag).toMatchObject({ seconds: null });
  });

  it('tells that nothing projects where only a process of an older version is there, and is blocked; and of one that is disconnected', async () => {
    await office.answer();
    await office.tellOtherwise({ state: 'blocked', since: '', position: '1', reason: 'unknown type' });
    const blocked = await readStatus(office.desk());
    expect(blocked.problems).toEqual(['nothing projects: is a process with the role projector running?']);
    expect(blocked.blocked).toBeNull();

    await office.tellOtherwise({ state: 'disconnected', since: '' });
    expect((await readStatus(office.desk())).problems).toContain('elm/8 (two) is disconnected: ');
    await office.tellOtherwise({ state: 'disconnected', since: '', reason: 'no route' });
    expect((await readStatus(office.desk())).problems).toContain('elm/8 (two) is disconnected: no route');
  });

  it('tells how far a rebuild is, how fast, and what it waits for', async () => {
    for (const id of [1, 2, 3]) await run(office.log, 'anne', createPlant(id));
    const generation = await office.answer();
    const rebuild = await office.requested();
    await office.recorded({ type: 'RebuildStarted', data: { rebuild, generation: 2 } });
    const events = await office.log.readStream(plantStream('anne', 1));
    const position = events.at(-1)?.position ?? START;
    const progress = { rebuild, phase: 'building' as const, position, events: 1, share: 0.1 };
    const live = { state: 'live' as const, since: NOON, generation, position };
    await office.tell(live, { ...progress, elapsedMs: 0 });
    expect((await readStatus(office.desk())).rebuild).toEqual({
      rebuild,
      requestedAt: NOON.toISOString(),
      generation: 2,
      phase: 'building',
      events: 1,
      total: 5,
      eventsPerSecond: null,
      share: 0.1,
      secondsLeft: null,
      problem: null,
    });
    await office.tell(live, { ...progress, elapsedMs: 500, secondsLeft: 2, problem: 'the disk is full' });
    expect((await readStatus(office.desk())).problems).toEqual([
      'the rebuild is failing, retrying: the disk is full',
    ]);
    await status(office.desk());
    expect(office.out).toContain(`${rebuild}: building, 1 of 5 events, 2/s, 2 s left\n`);
    await status(office.desk({ log: uncounted(office.log) }));
    expect(office.out).toContain(`${rebuild}: building, 1 events, 2/s, 2 s left\n`);
  });

  it('tells of lists that contain what the log has lost', async () => {
    await run(office.log, 'anne', createPlant(1));
    await run(office.log, 'anne', createPlant(2));
    await office.answer();
    office.cutLog(1);
    const { problems } = await readStatus(office.desk());
    expect(problems).toContainEqual(
      expect.stringMatching(/^the lists contain events up to 0*2, and the log ends at 0*1: /),
    );
  });

  it('tells the way back, and how the last rebuild ended', async () => {
    const generation = await office.answer();
    await live(generation);
    const rebuild = await office.requested();
    await office.recorded({
      type: 'RebuildPromoted',
      data: { rebuild, generation: 2, replaced: generation },
    });
    await status(office.desk());
    expect(office.out).toContain('to generation 1 until 2026-01-31T12:15:00.000Z (plants rollback)\n');
    expect(office.out).toContain(`none; the last one, ${rebuild}, was promoted at ${NOON.toISOString()}\n`);
    await office.recorded({ type: 'RollbackRequested', data: { rebuild, reason: 'odd' } });
    expect((await readStatus(office.desk())).wayBack).toBeNull();
  });

  it('tells when the lists were last compared with the log, by whichever process, and what differed', async () => {
    const tell = (name: string, verified: unknown): Promise<void> =>
      office.tellText(
        name,
        JSON.stringify({
          ...{
            host: 'oak',
            pid: 7,
            roles: ['projector'],
            version: '1.2.3',
            address: 'http://127.0.0.1:8080',
          },
          ...{ since: NOON.toISOString(), projector: null, rebuild: null, verified },
        }),
      );
    await tell('one', { at: '2026-01-31T11:00:00.000Z', differing: 2 });
    await tell('two', undefined);
    await status(office.desk());
    expect(office.out).toMatch(
      /^PROBLEM {2}the lists are not the fold of the log: 2 plants differed at 2026-01-31T11/m,
    );
    expect(office.out).toMatch(/^checked +2 plants differ, compared .* ago$/m);
    await tell('two', { at: '2026-01-31T11:30:00.000Z', differing: 0 });
    await tell('three', { at: '2026-01-31T11:10:00.000Z', differing: 1 });
    expect((await readStatus(office.desk())).problems).not.toContainEqual(
      expect.stringContaining('fold of the log'),
    );
  });

  it('tells what keeps auditors, witnesses and appends from working, whether a process says why or not', async () => {
    await live(await office.answer());
    const tell = (pid: number, state: string, reason: object): Promise<void> => {
      const since = NOON.toISOString();
      const witnesses = ['refuses', 'unreachable', 'disagrees'].map((does) => ({
        ...{ witness: `${does} ${pid}`, state: does },
        ...reason,
      }));
      const auditor = { ...{ state, since, size: 3, position: '' }, ...reason };
      return office.tellText(
        `process ${pid}`,
        JSON.stringify({
          ...{ host: 'ash', pid, roles: ['auditor'], version: '1.2.3', address: 'http://127.0.0.1:8080' },
          ...{ since, projector: null, rebuild: null },
          auditor: { ...auditor, witnessing: { required: 1, witnesses } },
          eventLog: { state: 'failing', since, restartHelps: pid === 1, ...reason },
        }),
      );
    };
    await tell(1, 'blocked', { reason: 'no route' });
    await tell(2, 'blocked', {});
    await tell(3, 'disconnected', { reason: 'no route' });
    await tell(4, 'disconnected', {});
    const { problems, warnings } = await readStatus(office.desk());
    const at = NOON.toISOString();
    expect(problems).toEqual(
      expect.arrayContaining([
        `ash/1 cannot write the event log since ${at}: no route (a restart of it is expected to help)`,
        `ash/2 cannot write the event log since ${at}: `,
        'the auditor ash/1 is blocked no route',
        'the auditor ash/2 is blocked ',
        'the auditor ash/3 is disconnected: no route',
        'the auditor ash/4 is disconnected: ',
        expect.stringMatching(
          /^the witness disagrees 1 cosigns nothing more of the auditor ash\/1: no route: this log was put back/,
        ),
        expect.stringMatching(
          /^the witness disagrees 4 cosigns nothing more of the auditor ash\/4: : this log/,
        ),
      ]),
    );
    expect(warnings).toEqual(
      [1, 2, 3, 4].flatMap((pid) => [
        `the auditor ash/${pid}: the witness refuses ${pid} refuses our checkpoints: ${pid % 2 === 1 ? 'no route' : ''}`,
        `the auditor ash/${pid}: the witness unreachable ${pid} does not answer as it should: ${pid % 2 === 1 ? 'no route' : ''}`,
      ]),
    );
  });

  it('tells which erasures are not over, and why, without saying whose they are', async () => {
    await live(await office.answer());
    const { log } = office.desk();
    const erasure = randomUUID();
    const operator = { actor: { sub: 'cli:olga' }, correlationId: 'test' };
    const data = { erasure, ownerHash: Buffer.alloc(32).toString('base64'), reason: 'request 7' };
    const started = { type: 'ErasureStarted', data } as const;
    await log.append(ERASURES_STREAM, 'none', [
      operationEvent(ERASURES_STREAM, undefined, started, operator, NOON),
    ]);
    await status(office.desk());
    expect(office.out).toContain(`${erasure} is ordered since ${NOON.toISOString()}, by cli:olga: request 7`);
  });

  it('tells what is skipped, by whom and why, and what a rebuild has taken in again', async () => {
    await live(await office.answer());
    const stream = plantStream('anne', 1);
    await appendRaw(office.log, stream, 'PlantWatered', {});
    await skipEvent(office.log, { stream, revision: 0n }, 'nobody\nwaters', OLGA, noon);
    await status(office.desk());
    expect(office.out).toContain(
      `skipped  event 0 of ${stream} by cli:olga at ${NOON.toISOString()}: nobody`,
    );
    const rebuild = await office.requested();
    await office.recorded({ type: 'RebuildCancelled', data: { rebuild, reason: 'by cli:olga' } });
    const again = { rebuild: 'again', rate: null, unskip: true };
    await office.recorded({ type: 'RebuildRequested', data: again });
    await office.recorded({
      type: 'RebuildPromoted',
      data: { rebuild: 'again', generation: 2, replaced: 1 },
    });
    await status(office.desk());
    expect(office.out).toMatch(/^unskipped +event 0 of /m);
  });

  it('leaves out a generation that was dropped a moment ago, and names a store that does not answer', async () => {
    const generation = await office.answer();
    const gone = new Faults(office.model).next(
      'anchors',
      failing(() => new GenerationMissing(`generation ${generation} is gone`)),
    ).port;
    expect((await readStatus(office.desk({ model: gone }))).generations).toEqual([]);
    const down = new Faults(office.model).next(
      'anchors',
      failing(() => new ReadModelUnavailable('it is down')),
    ).port;
    expect(await readStatus(office.desk({ model: down }))).toMatchObject({
      problems: ['the read model does not answer: it is down'],
      unanswered: ['read model'],
    });
  });

  it('says within a second which store hangs, and shows what the other one says', async () => {
    await live(await office.answer());
    const hanging = new Faults(office.log).every('head', () => new Promise(() => undefined)).port;
    expect(await readStatus(office.desk({ log: hanging }))).toMatchObject({
      problems: ['the event log does not answer: it has said nothing for 1 s'],
      unanswered: ['event log'],
      lag: { seconds: null, events: null },
      leaseHolder: 'one',
    });
  });

  it('shows a generation that is damaged, and all else', async () => {
    await live(await office.answer());
    const damaged = await office.model.createGeneration();
    office.tamper('DELETE FROM anchors WHERE partition = 7', damaged);
    expect(await status(office.desk({ json: true, model: await office.seenModel() }))).toBe(false);
    expect(office.json).toMatchObject({
      problems: expect.arrayContaining([
        expect.stringMatching(`^generation ${damaged} cannot be read: .* lacks partitions`),
      ]) as unknown,
      generations: [{ problem: null }, { generation: damaged, problem: expect.any(String) as unknown }],
    });
  });

  it('counts all owners whose lists are not answered, and shows the events of some', async () => {
    const owners = Array.from({ length: 22 }, (_, number) => `owner ${number}`);
    for (const owner of owners) await appendRaw(office.log, plantStream(owner, 1), 'PlantWatered', {});
    await live(await office.answer());
    expect(await status(office.desk())).toBe(false);
    expect(office.out).toContain('PROBLEM  the lists of 22 owners are not answered, for events that');
    expect(office.out).toMatch(/^parked +and 2 more owners$/m);
    const { parked } = await readStatus(office.desk());
    expect(parked.owners).toBe(22);
    expect(parked.events).toHaveLength(20);
    const dropped = new Faults(office.model).next(
      'countParked',
      failing(() => new GenerationMissing('generation 1 is gone')),
    ).port;
    expect((await readStatus(office.desk({ model: dropped }))).parked).toEqual({ owners: 0, events: [] });
    const down = new Faults(office.model).next(
      'countParked',
      failing(() => new ReadModelUnavailable('it is down')),
    ).port;
    expect(await readStatus(office.desk({ model: down }))).toMatchObject({
      problems: ['the read model does not answer: it is down'],
      unanswered: ['read model'],
    });
  });

  it('says to upgrade where a newer version has written an event of one owner', async () => {
    const metadata = { ...sampleMetadata(), schemaVersion: 99 };
    await office.log.append(plantStream('anne', 1), 'none', [
      { id: metadata.causationId, type: 'PlantCreated', data: {}, metadata },
    ]);
    await live(await office.answer());
    await status(office.desk());
    expect(office.out).toContain(
      'PROBLEM  the lists of 1 owner are not answered, for events that cannot be read: a newer version of this service has written some of them, so upgrade\n',
    );
  });

  it('tells who cannot write the log, what the auditors hold, and whose rebuild is failing', async () => {
    await live(await office.answer());
    const since = NOON.toISOString();
    const elm = { host: 'elm', pid: 8, roles: [], version: '9', address: '', since, rebuild: null };
    const auditor = { since, size: 1, position: '' };
    await office.tellText(
      'two',
      JSON.stringify({
        ...elm,
        projector: null,
        rebuildProblem: 'generation 2 is gone',
        erasureProblem: 'an alarm stands',
        auditor: { ...auditor, state: 'blocked', reason: 'at position 7' },
        eventLog: { state: 'failing', since, reason: 'its disk is full', restartHelps: false },
      }),
    );
    await office.tellText(
      'three',
      JSON.stringify({
        ...elm,
        pid: 9,
        projector: null,
        auditor: { ...auditor, state: 'disconnected', reason: 'the log is away' },
        eventLog: { state: 'stopped', since, reason: 'its file is gone', restartHelps: true },
      }),
    );
    await status(office.desk());
    for (const problem of [
      `elm/8 cannot write the event log since ${since}: its disk is full`,
      `elm/9 cannot write the event log since ${since}: its file is gone (a restart of it is expected to help)`,
      'the auditor elm/8 is blocked at position 7',
      'the auditor elm/9 is disconnected: the log is away',
      'generations of the lists cannot be looked after by elm/8 (two), retrying: generation 2 is gone',
      'an erasure is failing on elm/8, retrying: an alarm stands',
    ])
      expect(office.out).toContain(`PROBLEM  ${problem}\n`);
    const shown = await readStatus(office.desk());
    expect(SystemStatus.parse(shown)).toEqual(shown); // the API's document names every member
    const log = new Faults(office.log).every('health', () => ({
      state: 'failing',
      since: NOON,
      reason: 'its disk is full',
      restartHelps: false,
    })).port;
    expect((await readStatus(office.desk({ log }))).problems).not.toContain(
      'the event log cannot be written from here: its disk is full',
    );
  });

  it('watched, is printed again and again until somebody asks to stop', async () => {
    await live(await office.answer());
    const watching = watchStatus(office.desk({ json: true }));
    await until(() => office.out.trimEnd().split('\n').length === 2);
    office.interrupt(new Interrupted('enough'));
    expect(await watching).toBe(true);
    expect(office.json).toMatchObject({ problems: [], leaseHolder: 'one' });
  });

  it('watched, goes on when a store that was away is there again', async () => {
    await live(await office.answer());
    const away = new Faults(office.model).next(
      'generations',
      failing(() => new ReadModelUnavailable('it is down')),
    ).port;
    const watching = watchStatus(office.desk({ json: true, model: away }));
    await until(() => office.out.trimEnd().split('\n').length === 2);
    office.interrupt(new Interrupted('enough'));
    expect(await watching).toBe(true);
    expect(office.out).toMatch(/^\{.*"the read model does not answer: it is down".*\n\{.*"problems":\[\]/);
    const broken = new Faults(office.model).next(
      'generations',
      failing(() => new TypeError('a mistake of ours')),
    ).port;
    await expect(watchStatus(office.desk({ model: broken }))).rejects.toThrow('a mistake of ours');
  });
});

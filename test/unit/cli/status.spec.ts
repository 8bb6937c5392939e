import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { Interrupted } from '../../../src/cli/interrupted.js';
import { status, watchStatus } from '../../../src/cli/commands/status.js';
import { reportText } from '../../../src/operations/process-report.js';
import { readStatus } from '../../../src/operations/status.js';
import { SystemStatus } from '../../../src/operations/system-status.js';
import { ERASURES_STREAM, plantStream } from '../../../src/domain/stream.js';
import { type Position, START } from '../../../src/log/event-log.js';
import {
  type Generation,
  GenerationMissing,
  PARTITIONS,
  partitionOf,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { operationEvent, skipEvent } from '../../../src/commands/record-rebuilds.js';
import { failing, Faults, logGone } from '../../support/domain-faults.js';
import { known } from '../../support/domain-model.js';
import { appendRaw, NOON, noon, run } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { sampleMetadata } from '../../support/log-events.js';
import { Office, OLGA, uncounted } from './command-for-tests.js';
import { until } from '../../support/waiting.js';

const AT = NOON.toISOString();

/** The report of a process without a projector. */
const ASH = {
  ...{ host: 'ash', pid: 9, roles: ['api'], version: '1.2.3', address: 'http://127.0.0.1:8081', since: AT },
  ...{ projector: null, rebuild: null },
};

const AUDITOR = {
  ...{ state: 'live', since: AT, size: 70, position: '0000000000000070' },
  ...{
    checkpoint: { size: 60, signedAt: '2026-01-31T11:59:58.000Z' },
    recheckedAt: '2026-01-31T11:59:30.000Z',
  },
};
const auditor = (more: object) => ({ auditor: { ...AUDITOR, ...more } });
const witnesses = (...found: object[]) =>
  auditor({ witnessing: { required: 1, size: 60, witnesses: found } });
const signing = (more: object) => auditor({ signing: { key: 'plants/x+2', warnings: [], ...more } });
const TREE = 'tree  70 events up to 0000000000000070; last checkpoint of 60, 2 s ago;';
const SIGNS = 'signing  ash/9 signs with plants/x+2';
const RECORDED = { since: '2026-01-30', recorded: { size: 60, at: '2026-01-31' } };
const SO_FAR = `${SIGNS} since 2026-01-30; last recorded 60 events at 2026-01-31`;

/** Reports of a process, each with the lines of `plants status` that show it. */
const TOLD: readonly (readonly [what: string, report: object, ...lines: string[]])[] = [
  ['leaves projecting to others', {}, 'ash/9  api  1.2.3  http://127.0.0.1:8081  0 s  -  -  -'],
  [
    'is disconnected',
    { projector: { state: 'disconnected', since: '', reason: 'no route' } },
    'PROBLEM  ash/9 (ash) is disconnected: no route',
  ],
  [
    'is disconnected, and does not say why',
    { projector: { state: 'disconnected', since: '' } },
    'PROBLEM  ash/9 (ash) is disconnected: ',
  ],
  [
    'cannot look after generations, nor erase',
    { rebuildProblem: 'generation 2 is gone', erasureProblem: 'an alarm stands' },
    'PROBLEM  generations of the lists cannot be looked after by ash/9 (ash), retrying: generation 2 is gone',
    'PROBLEM  an erasure is failing on ash/9, retrying: an alarm stands',
  ],
  [
    'cannot write the log',
    { eventLog: { state: 'failing', since: AT, reason: 'its disk is full', restartHelps: false } },
    `PROBLEM  ash/9 cannot write the event log since ${AT}: its disk is full`,
  ],
  [
    'cannot write the log until it is started again',
    { eventLog: { state: 'stopped', since: AT, restartHelps: true } },
    `PROBLEM  ash/9 cannot write the event log since ${AT}:  (a restart of it is expected to help)`,
  ],
  [
    'has compared lists that differ',
    { verified: { at: '2026-01-31T11:00:00.000Z', differing: 2 } },
    'PROBLEM  the lists are not the fold of the log, differences: 2 at 2026-01-31T11:00:00.000Z; plants verify names them, plants rebuild builds the lists again',
    'checked  2 differences between lists and log, compared 1 h 0 min ago',
  ],
  ['has an auditor', auditor({}), `${TREE} log re-read 30 s ago; ash/9 is live`],
  [
    'has an auditor that reads the log again',
    auditor({ recheckedAt: undefined, rechecking: { since: '2026-01-31T11:59:57.000Z', events: 25 } }),
    `${TREE} log not yet re-read; being re-read for 3 s, 25 events so far; ash/9 is live`,
  ],
  [
    'has an alarm',
    auditor({
      state: 'alarm',
      alarm: { kind: 'changed', index: 41, message: 'event 41 differs', raisedAt: AT },
    }),
    'PROBLEM  ALARM of the auditor ash/9: event 41 differs (nothing is signed until plants audit-lift; see docs/audit.md)',
  ],
  [
    'has a blocked auditor',
    auditor({ state: 'blocked', reason: 'at position 7' }),
    'PROBLEM  the auditor ash/9 is blocked at position 7',
  ],
  [
    'has a disconnected auditor',
    auditor({ state: 'disconnected', reason: 'no route' }),
    'PROBLEM  the auditor ash/9 is disconnected: no route',
  ],
  ['signs with a key that the log has not recorded', signing({}), `${SIGNS} (not yet recorded in the log)`],
  ['signs with a recorded key', signing(RECORDED), SO_FAR],
  [
    'signs over another tree than before',
    signing({
      ...{ ...RECORDED, before: { key: 'plants/x+2', until: '2026-01-29', confirmed: true } },
      warnings: ['it began again'],
    }),
    `${SO_FAR}; before that over another tree, until 2026-01-29`,
    'WARNING  the auditor ash/9: it began again',
  ],
  [
    'signs with a key that the one before has confirmed',
    signing({ ...RECORDED, before: { key: 'plants/x+1', until: '2026-01-29', confirmed: true } }),
    `${SO_FAR}; before that plants/x+1 until 2026-01-29, which signed the change, too`,
  ],
  [
    'signs with a key that the one before has not confirmed',
    signing({ ...RECORDED, before: { key: 'plants/x+1', until: '2026-01-29', confirmed: false } }),
    `${SO_FAR}; before that plants/x+1 until 2026-01-29, which did not sign the change`,
  ],
  [
    'began its tree again, and doubts a time',
    auditor({
      notice: 'there was no tree.db',
      times: { count: 1, position: '7', message: 'event 0 is early' },
    }),
    'WARNING  the auditor ash/9: there was no tree.db',
    'WARNING  the auditor ash/9: event 0 is early',
  ],
  [
    'doubts three times',
    auditor({ times: { count: 3, position: '7', message: 'event 0 is early' } }),
    'WARNING  the auditor ash/9: event 0 is early; and 2 more like it',
  ],
  [
    'has witnesses that do not cosign',
    witnesses(
      { witness: 'w1', state: 'refuses', reason: 'no key' },
      { witness: 'w2', state: 'unreachable', size: 5, at: AT },
      { witness: 'w3', state: 'disagrees', reason: 'no proof' },
    ),
    `witnesses  ash/9: 60 events cosigned by 1 of 3; w1 refuses; w2 unreachable, last 5 at ${AT}; w3 disagrees`,
    'WARNING  the auditor ash/9: the witness w1 refuses the checkpoints of this log: no key',
    'WARNING  the auditor ash/9: the witness w2 does not answer as it should: ',
    'PROBLEM  the witness w3 cosigns nothing more of the auditor ash/9: no proof: this log was restored to an earlier state or altered, or the witness is wrong (docs/witnesses.md)',
  ],
];

describe('the status', () => {
  let office: Office;
  const terminal = process.stdout.isTTY;

  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  const live = async (generation: Generation): Promise<void> =>
    office.tell({ state: 'live', since: NOON, generation, position: await office.log.head() });
  const told = (name: string, report: object): Promise<void> =>
    office.tellText(name, JSON.stringify({ ...ASH, ...report }));
  const down = failing(() => new ReadModelUnavailable('it is down'));
  const gone = failing(() => new GenerationMissing('generation 1 is gone'));
  const DOWN = { problems: ['the read model does not answer: it is down'], unanswered: ['read model'] };

  it.each(TOLD)('is that of a process that %s', async (_what, report, ...lines) => {
    await live(await office.answer());
    await told('ash', report);
    await status(office.desk());
    const printed = office.out.split('\n').map((line) => line.replace(/ {2,}(?=\S)/g, '  '));
    expect(printed).toEqual(expect.arrayContaining(lines));
    const found = (await readStatus(office.desk())) as unknown;
    expect(SystemStatus.parse(found)).toEqual(found); // the API's document names every member
    expect(printed.includes('all is well')).toBe(!lines.some((line) => line.startsWith('PROBLEM')));
  });

  it('takes from an auditor what the API describes', async () => {
    const status = { ...AUDITOR, position: START, reason: undefined, alarm: undefined, since: NOON };
    const auditor = { status: { ...status, state: 'live' as const } };
    const text = reportText({ ...ASH, roles: ['auditor'] }, { auditor });
    await office.tellText('ash', text);
    const found = await readStatus(office.desk());
    expect(SystemStatus.parse(found)).toEqual(found);
    expect(found.processes[0]?.auditor?.checkpoint).toEqual(AUDITOR.checkpoint);
  });

  it('of a new system says what is missing', async () => {
    await office.model.createGeneration();
    expect(await status(office.desk())).toBe(false);
    expect(office.out).toContain(
      'PROBLEM  nothing projects: no process tells about itself; none runs, or none can write to the read model (is its disk full?)\n',
    );
    expect(office.out).toContain('PROBLEM  no list is answered: ');
    expect(office.out).toMatch(/^log +head empty\nlists +0 s behind, 0 events\nrebuild +none$/m);
    expect(office.out).toMatch(/^1 +- +start +start +0 of 64$/m); // nothing was put into it yet
  });

  it('says that nothing projects where a process of an older version is blocked', async () => {
    await office.answer();
    await told('ash', { projector: { state: 'blocked', since: '', position: '1', reason: 'unknown type' } });
    expect(await readStatus(office.desk())).toMatchObject({
      problems: ['nothing projects: is a process with the role projector running?'],
      blocked: null,
    });
  });

  it('of a system where all is well says so, and how it stands', async () => {
    await run(office.log, 'anne', createPlant(1));
    await live(await office.answer());
    expect(await status(office.desk())).toBe(true);
    expect(office.out).toMatch(/^all is well\n/);
    expect(office.out).toMatch(/^oak\/7 +api,projector +1\.2\.3 +http:\S+ +0 s +live +0*1 +yes$/m);
    expect(office.out).toMatch(/^1 +yes +0*1 +0*1 +0 of 64$/m);
  });

  it('shows how far the slowest and the fastest part of the lists are', async () => {
    const generation = await office.answer();
    const owners = Array.from({ length: 1_000 }, (_, number) => `owner ${number}`);
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
    expect((await readStatus(office.desk())).generations).toEqual([
      { generation, active: true, slowest: START, fastest, behind: PARTITIONS - 1, problem: null },
    ]);
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
    expect(office.out).toMatch(/^lists +0 s behind\nrebuild +\S+: waiting$/m);
  });

  it('says of what a store does not tell that it is unknown', async () => {
    await live(await office.answer());
    await status(office.desk({ log: new Faults(office.log).every('head', logGone).port }));
    expect(office.out).toMatch(
      /^log +unknown\nlists +behind for an unknown time\nrebuild +unknown\nchecked +never$/m,
    );
    await status(office.desk({ model: new Faults(office.model).next('generations', down).port }));
    expect(office.out).toMatch(/^log +head \S+\n.*\nrebuild +none\nchecked +unknown$/m);
  });

  it('does not know the age of an event that does not say when it was decided, or that the log has lost', async () => {
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
    office.cutLog(3);
    const end = () => Promise.resolve('9'.padStart(16, '0') as never);
    const log = new Faults(office.log).every('head', end).port;
    expect((await readStatus(office.desk({ log }))).lag).toMatchObject({ seconds: null });
  });

  it('tells how far a rebuild is, how fast, and what it waits for', async () => {
    for (const id of [1, 2, 3]) await run(office.log, 'anne', createPlant(id));
    const generation = await office.answer();
    const rebuild = await office.requested();
    await office.recorded({ type: 'RebuildStarted', data: { rebuild, generation: 2 } });
    const position = await office.log.head();
    const progress = { rebuild, phase: 'building' as const, position, events: 1, share: 0.1 };
    const live = { state: 'live' as const, since: NOON, generation, position };
    await office.tell(live, { ...progress, elapsedMs: 0 });
    expect((await readStatus(office.desk())).rebuild).toEqual({
      ...{ rebuild, requestedAt: AT, generation: 2, phase: 'building', events: 1, total: 5, share: 0.1 },
      ...{ eventsPerSecond: null, secondsLeft: null, problem: null },
    });
    await office.tell(live, { ...progress, elapsedMs: 500, secondsLeft: 2, problem: 'the disk is full' });
    expect((await readStatus(office.desk())).problems).toEqual([
      'the rebuild is failing, retrying: the disk is full',
    ]);
    await status(office.desk());
    expect(office.out).toContain(`${rebuild}: building, 1 of 5 events, 2/s, 2 s left\n`);
    await status(office.desk({ log: uncounted(office.log) }));
    expect(office.out).toContain(`${rebuild}: building, 1 event, 2/s, 2 s left\n`);
  });

  it('tells of lists that contain what the log has lost', async () => {
    for (const id of [1, 2]) await run(office.log, 'anne', createPlant(id));
    await office.answer();
    office.cutLog(1);
    expect((await readStatus(office.desk())).problems).toContainEqual(
      expect.stringMatching(/^the lists contain events up to 0*2, and the log ends at 0*1: /),
    );
  });

  it('tells the way back, and how the last rebuild ended', async () => {
    await live(await office.answer());
    const rebuild = await office.requested();
    await office.recorded({ type: 'RebuildPromoted', data: { rebuild, generation: 2, replaced: 1 } });
    await status(office.desk());
    expect(office.out).toContain('to generation 1 until 2026-01-31T12:15:00.000Z (plants rollback)\n');
    expect(office.out).toContain(`none; the last one, ${rebuild}, was promoted at ${AT}\n`);
    await office.recorded({ type: 'RollbackRequested', data: { rebuild, reason: 'odd' } });
    expect((await readStatus(office.desk())).wayBack).toBeNull();
  });

  it('counts the last comparison of the lists alone, by whichever process', async () => {
    await told('one', { verified: { at: '2026-01-31T11:00:00.000Z', differing: 2 } });
    await told('two', { verified: { at: '2026-01-31T11:30:00.000Z', differing: 0 } });
    await told('three', { verified: { at: '2026-01-31T11:10:00.000Z', differing: 1 } });
    const { problems } = await readStatus(office.desk());
    expect(problems).not.toContainEqual(expect.stringContaining('fold of the log'));
  });

  it('tells which erasures are not over, and why, without saying whose they are', async () => {
    const erasure = randomUUID();
    const data = { erasure, ownerHash: Buffer.alloc(32).toString('base64'), reason: 'request 7' };
    const started = { type: 'ErasureStarted', data } as const;
    await office.log.append(ERASURES_STREAM, 'none', [
      operationEvent(ERASURES_STREAM, undefined, started, OLGA, NOON),
    ]);
    await status(office.desk());
    expect(office.out).toContain(`${erasure} is ordered since ${AT}, by cli:olga: request 7`);
  });

  it('tells what is skipped, by whom and why, and what a rebuild has taken in again', async () => {
    await live(await office.answer());
    const stream = plantStream('anne', 1);
    await appendRaw(office.log, stream, 'PlantWatered', {});
    const event = known(await office.log.readLast(stream));
    await skipEvent(office.log, event, 'nobody\nwaters', OLGA, noon);
    await status(office.desk());
    expect(office.out).toContain(`skipped  event 0 of ${event.id} by cli:olga at ${AT}: nobody`);
    const rebuild = 'again';
    await office.recorded({ type: 'RebuildRequested', data: { rebuild, rate: null, unskip: true } });
    await office.recorded({ type: 'RebuildPromoted', data: { rebuild, generation: 2, replaced: 1 } });
    await status(office.desk());
    expect(office.out).toMatch(/^unskipped +event 0 of /m);
  });

  it('leaves out a generation that was dropped a moment ago, and names a store that does not answer', async () => {
    await office.answer();
    const dropped = new Faults(office.model).next('anchors', gone).port;
    expect((await readStatus(office.desk({ model: dropped }))).generations).toEqual([]);
    for (const method of ['anchors', 'countBlocked'] as const) {
      const { port: model } = new Faults(office.model).next(method, down);
      expect(await readStatus(office.desk({ model }))).toMatchObject(DOWN);
    }
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
    const { problems, generations } = await readStatus(office.desk({ model: await office.seenModel() }));
    expect(problems).toContainEqual(
      expect.stringMatching(`^generation ${damaged} cannot be read: .* lacks partitions`),
    );
    expect(generations.map(({ problem }) => problem === null)).toEqual([true, false]);
  });

  it('counts all owners whose lists are not answered, and shows the events of some', async () => {
    const owners = Array.from({ length: 22 }, (_, number) => `owner ${number}`);
    for (const owner of owners) await appendRaw(office.log, plantStream(owner, 1), 'PlantWatered', {});
    await live(await office.answer());
    expect(await status(office.desk())).toBe(false);
    expect(office.out).toContain('PROBLEM  the lists of 22 owners are not answered, for events that');
    expect(office.out).toMatch(
      /^blocked +at \d+: event 0 of \S+: unknown type.*\nblocked +and 2 more owners$/m,
    );
    const { parked } = await readStatus(office.desk());
    expect([parked.owners, parked.events.length]).toEqual([22, 20]);
    const dropped = new Faults(office.model).next('countBlocked', gone).port;
    expect((await readStatus(office.desk({ model: dropped }))).parked).toEqual({ owners: 0, events: [] });
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

  it('names once what keeps this process and its report from writing the log', async () => {
    const failing = { state: 'failing', reason: 'its disk is full', restartHelps: false } as const;
    const log = new Faults(office.log).every('health', () => ({ ...failing, since: NOON })).port;
    const here = 'the event log cannot be written from here: its disk is full';
    expect((await readStatus(office.desk({ log }))).problems).toContain(here);
    await told('ash', { eventLog: { ...failing, since: AT } });
    expect((await readStatus(office.desk({ log }))).problems).not.toContain(here);
  });

  it('watched, goes on until somebody asks to stop, and when a store that was away is there again', async () => {
    await live(await office.answer());
    const away = new Faults(office.model).next('generations', down).port;
    const watching = watchStatus(office.desk({ json: true, model: away }));
    await until(() => office.out.trimEnd().split('\n').length === 2);
    office.interrupt(new Interrupted('enough'));
    expect(await watching).toBe(true);
    expect(office.out).toMatch(/^\{.*"the read model does not answer: it is down".*\n\{.*"problems":\[\]/);
    const mistake = failing(() => new TypeError('a mistake of ours'));
    const broken = new Faults(office.model).next('generations', mistake).port;
    await expect(watchStatus(office.desk({ model: broken }))).rejects.toThrow('a mistake of ours');
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
});

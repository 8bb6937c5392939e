import { describe, expect, it } from '@jest/globals';
import { counted, duration, number, percent } from '../../../console/pages/operator/figures.js';
import { pathsOf, peakOf, Samples, SPAN_MS, topOf } from '../../../console/pages/operator/samples.js';
import { type SystemStatus } from '../../../console/pages/operator/status.js';
import { verdictOf } from '../../../console/pages/operator/verdict.js';

const WELL: SystemStatus = {
  at: '2026-01-31T12:00:00.000Z',
  problems: [],
  warnings: [],
  head: '0000000000000042',
  lag: { seconds: 0, events: 0 },
  processes: [],
  leaseHolder: null,
  generations: [],
  rebuild: null,
  lastRebuild: null,
  erasures: [],
  wayBack: null,
  blocked: null,
  parked: { owners: 0, events: [] },
  skipped: [],
};

const AUDITOR: SystemStatus['processes'][number] = {
  process: 'p',
  host: 'host',
  pid: 1,
  roles: ['auditor'],
  version: '1.0.0',
  address: '',
  since: WELL.at,
  projector: null,
  auditor: { state: 'live', size: 0 },
};

const withTree = (size: number, lag: SystemStatus['lag'] = WELL.lag): SystemStatus => ({
  ...WELL,
  lag,
  processes: [{ ...AUDITOR, auditor: { state: 'live', size } }],
});

describe('the verdict', () => {
  it('is that all is well where nothing is wrong', () => {
    expect(verdictOf(WELL, true, undefined)).toEqual({
      level: 'well',
      headline: 'All is well',
      findings: [],
    });
    expect(verdictOf({ ...WELL, warnings: ['a', 'b'] }, true, undefined)).toMatchObject({
      level: 'warned',
      headline: 'All is well, with 2 things to know',
    });
  });

  it('names each problem, and what to do about it', () => {
    const problems = [
      'nothing projects: is a process with the role projector running?',
      'something unheard of',
    ];
    const { level, headline, findings } = verdictOf({ ...WELL, problems }, true, undefined);
    expect([level, headline]).toEqual(['wrong', '2 problems']);
    expect(findings).toMatchObject([
      { text: problems[0], command: 'ROLES=projector npx plants serve' },
      { text: problems[1], advice: expect.stringContaining('docs/runbook.md') as unknown },
    ]);
  });

  it('begins with an alarm where one stands', () => {
    const alarm = { kind: 'altered', raisedAt: WELL.at };
    const processes = [{ ...AUDITOR, auditor: { state: 'alarm', size: 1, alarm } }];
    const problems = ['ALARM of the auditor host/1: event at index 0 is not the one that was signed'];
    const { headline, findings } = verdictOf({ ...WELL, processes, problems }, true, undefined);
    expect(headline).toBe('Alarm: the log is not what was signed');
    expect(findings[0]?.command).toMatch(/^npx plants audit-lift --reason /);
  });

  it.each([
    ['nothing has come yet', undefined, false, undefined, 'Looking…'],
    ['nothing comes', undefined, false, 'The service cannot be reached.', 'Not known at present'],
    ['the last status is old', WELL, false, undefined, 'Not known at present'],
    ['the status cannot be read', WELL, true, 'The log is away.', 'Not known at present'],
  ] as const)('is never "well" where %s', (_, status, isCurrent, trouble, headline) => {
    expect(verdictOf(status, isCurrent, trouble)).toMatchObject({ level: 'unknown', headline });
  });
});

describe('what was received', () => {
  const NOW = 1_800_000_000_000;

  it('is a series of a quarter of an hour, each value the greatest of its five seconds', () => {
    const samples = new Samples();
    samples.add(NOW, { ...WELL, lag: { seconds: 3, events: 7 } });
    samples.add(NOW + 4_000, { ...WELL, lag: { seconds: 1, events: 9 } });
    const series = samples.lag(NOW + 4_000, 'seconds');
    expect(series).toHaveLength(180);
    expect(series.at(-1)).toBe(3);
    expect(samples.lag(NOW + 4_000, 'events').at(-1)).toBe(9);
    expect(series.filter((value) => value !== undefined)).toHaveLength(1);
    expect(peakOf(samples.lag(NOW + 5_000, 'seconds'))).toEqual({ value: 3, secondsAgo: 0 });
  });

  it('has a gap where nothing was known, but for a timer that was late', () => {
    const samples = new Samples();
    samples.add(NOW, WELL);
    samples.add(NOW + 15_000, WELL);
    samples.add(NOW + 60_000, { ...WELL, lag: { seconds: null, events: null } });
    const known = samples.lag(NOW + 60_000, 'seconds').slice(-13);
    expect(known.map((value) => value !== undefined)).toEqual([
      ...Array.from({ length: 6 }, () => true),
      ...Array.from({ length: 7 }, () => false),
    ]);
  });

  it('is forgotten after that time', () => {
    const samples = new Samples();
    samples.add(NOW, WELL);
    samples.add(NOW + 2 * SPAN_MS, WELL);
    expect(peakOf(samples.lag(NOW, 'seconds'))).toBeUndefined();
  });

  it('gives the events of a second from what the auditors have counted', () => {
    const samples = new Samples();
    for (let step = 0; step <= 10; step += 1) samples.add(NOW + step * 5_000, withTree(step * 50));
    expect(samples.rate(NOW + 50_000).at(-1)).toBe(10);
    samples.add(NOW + 55_000, withTree(0)); // the tree was made again
    expect(samples.rate(NOW + 55_000).at(-1)).toBeUndefined();
    expect(peakOf(new Samples().rate(NOW))).toBeUndefined();
  });

  it('is drawn as lines with gaps, and points where one value stands alone', () => {
    expect(pathsOf([undefined, 0, 5, undefined, 10], 10)).toEqual({
      line: 'M1 100L2 50M4 0h0',
      area: 'M1 100L1 100L2 50V100ZM4 100L4 0V100Z',
    });
    expect([0, 1, 1.2, 3, 5, 7, 99, 100, 101].map(topOf)).toEqual([1, 1, 2, 5, 5, 10, 100, 100, 200]);
  });
});

it('figures are as people read them', () => {
  expect([0, 0.44, 12.6, 60_002].map(number)).toEqual(['0', '0.4', '13', '60,002']);
  expect([counted(1, 'event'), counted(2_000, 'event')]).toEqual(['1 event', '2,000 events']);
  expect([0, 4.83, 59, 60, 325, 3_600, 11_100, 200_000].map(duration)).toEqual([
    ...['0 s', '4.8 s', '59 s', '1 min', '5 min 25 s', '1 h', '3 h 5 min', '2 d 7 h'],
  ]);
  expect([percent(0), percent(0.999), percent(1)]).toEqual(['0 %', '99 %', '100 %']);
});

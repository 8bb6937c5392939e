import { describe, expect, it } from '@jest/globals';
import { barChart, chartGroups } from '../../../bench/chart.js';
import { type RunAbout, resultJson, resultText } from '../../../bench/report.js';
import { type Figure, Results } from '../../../bench/results.js';
import { targetRows } from '../../../bench/targets.js';

const about: RunAbout = {
  command: 'npm run bench',
  at: '2026-01-31',
  quick: false,
  repeats: 3,
  seconds: 5,
  events: 1_000_000,
  owners: 100_000,
  machine: {
    cores: 2,
    processor: 'a processor',
    memoryGiB: 8,
    system: 'linux x64',
    node: 'v20.20.2',
    loadGenerator: 'wrk 4.1.0',
    storesInMemory: false,
  },
  servers: {},
};

const figure = (workload: string, contender: string, ...values: number[]): Figure => ({
  workload,
  contender,
  unit: 'requests/s',
  values,
});

const resultsOf = (...figures: Figure[]): Results => {
  const results = new Results();
  results.figures.push(...figures);
  return results;
};

const rowOf = (results: Results, figure: RegExp) =>
  targetRows(results).find((row) => figure.test(row.figure));

describe('what must be reached', () => {
  it('is reached where the median of the ratios of each round is good enough', () => {
    const results = resultsOf(
      figure('list-20', 'embedded', 80, 10, 78),
      figure('list-20', 'bare', 100, 100, 100),
    );

    expect(rowOf(results, /bare node:http/)).toMatchObject({ measured: '0.78 ×', verdict: 'reached' });
  });

  it('is missed where it is not', () => {
    const results = resultsOf(figure('list-20', 'embedded', 74), figure('list-20', 'bare', 100));

    expect(rowOf(results, /bare node:http/)).toMatchObject({ measured: '0.74 ×', verdict: 'missed' });
  });

  it.each([
    [0.5, [85], '1.67 ×', '85 µs', 'reached'],
    [0.6, [86], '2.00 ×', '86 µs', 'missed'],
  ])('wants waits and processor time to be small: %d ms, %j µs', (p50, processor, wait, each, verdict) => {
    const results = resultsOf(
      { ...figure('create-1', 'embedded', 1), p50: [p50] },
      { ...figure('create-1', 'crud', 1), p50: [0.3] },
      { ...figure('create-256', 'embedded', 1), processor },
    );

    expect(rowOf(results, /wait/)).toMatchObject({ measured: wait, verdict });
    expect(rowOf(results, /processor time of a create at 256/)).toMatchObject({ measured: each, verdict });
  });

  it('shows beside the documented peer what the same one does without its needless work, and judges by the former', () => {
    const results = resultsOf(
      figure('create-256', 'embedded', 900),
      figure('create-256', 'typeorm', 100),
      figure('create-256', 'typeorm-key', 180),
    );

    expect(rowOf(results, /the same peer/)).toMatchObject({
      measured: '9.00 × (5.00 × with its secret as a key)',
      verdict: 'reached',
    });
  });

  it('was not run where one of the two was not, or did nothing', () => {
    const results = resultsOf(
      figure('list-20', 'embedded', 59),
      figure('create-256', 'embedded', 1_000),
      figure('create-256', 'typeorm', 0),
    );

    expect(new Set(targetRows(results).map(({ verdict }) => verdict))).toEqual(new Set(['not run']));
  });

  it.each([
    [160_000, 1_000_000, 'reached'],
    [70_000, 100_000, 'reached'],
    [50_000, 100_000, 'missed'],
  ])('takes a rebuild of %d events/s beside a bare loop of %d as %s', (ours, bare, verdict) => {
    const results = resultsOf(figure('rebuild', 'embedded', ours), figure('rebuild', 'bare loop', bare));

    expect(rowOf(results, /SQLite → SQLite/)?.verdict).toBe(verdict);
  });

  it.each([
    [190, 1, 'reached'],
    [195, 1, 'missed'], // mebibytes: more than 200 megabytes
    [190, 1.3, 'missed'],
  ])('takes %d MiB in a rebuild that grow %d times as %s', (greatest, growth, verdict) => {
    const results = resultsOf(
      figure('memory in a rebuild', 'embedded', greatest),
      figure('memory in a rebuild, growth', 'embedded', growth),
    );

    expect(rowOf(results, /memory/)?.verdict).toBe(verdict);
  });
});

describe('the report of a benchmark', () => {
  it('shows median, spread, processor time and failures of each contender', () => {
    const results = resultsOf({
      ...figure('list-20', 'embedded', 900, 1_000, 1_100),
      processor: [90, 100, 110],
      failed: 2,
    });

    expect(resultText(about, results)).toMatch(
      /\| list-20 +\| embedded +\| 1,000 +\| requests\/s +\| 20 % +\| 100 +\|.*\| 2 +\|/,
    );
  });

  it('says what was not run and why, and what is broken', () => {
    const results = resultsOf();
    results.notRun('a peer', 'there is no PostgreSQL');
    results.broken.push('plants were lost');

    const text = resultText(about, results);
    expect(text).toContain('not run: a peer: there is no PostgreSQL');
    expect(text).toContain('plants were lost');
  });

  it('gives programs all rounds and all verdicts', () => {
    const json = JSON.parse(resultJson(about, resultsOf(figure('list-20', 'bare', 1, 2, 3)))) as {
      figures: Figure[];
      mustReach: unknown[];
      machine: object;
    };

    expect(json.figures[0]?.values).toEqual([1, 2, 3]);
    expect(json.mustReach).toHaveLength(targetRows(resultsOf()).length);
    expect(Object.keys(json.machine)).not.toContain('hostname');
  });
});

describe('the chart of a benchmark', () => {
  it('gives each group a scale of its own, and the greatest bar all the width there is', () => {
    const groups = chartGroups(
      resultsOf(
        figure('list-20', 'embedded', 500, 500, 200),
        figure('list-20', 'bare', 1_000, 2_000, 500),
        figure('list-20', 'else', 9),
      ),
    );

    const svg = barChart(groups, ['a < b']);
    const widths = [...svg.matchAll(/<rect class="\w+" x="250" y="\d+" width="([\d.]+)"/g)].map(
      ([, width]) => width,
    );
    expect(widths).toEqual(['210.0', '420.0']);
    expect(svg).toContain('>1,000 (0.4 ×)<');
    expect(svg).toContain('a &lt; b');
  });

  it('has no group of which nothing was measured', () => {
    expect(chartGroups(resultsOf())).toEqual([]);
  });
});

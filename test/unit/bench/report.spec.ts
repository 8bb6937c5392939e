import { describe, expect, it } from '@jest/globals';
import { chartOf } from '../../../bench/chart.js';
import { reachedOf } from '../../../bench/must-reach.js';
import { aboutRun, resultJson, resultText } from '../../../bench/report.js';
import { type Figure, FULL, Results, type Sample } from '../../../bench/results.js';

const about = aboutRun(false, FULL);

const figureOf = (workload: string, contender: string, samples: Sample[]): Figure => ({
  workload,
  contender,
  unit: 'requests/s',
  samples,
});

const figure = (workload: string, contender: string, ...values: number[]): Figure =>
  figureOf(
    workload,
    contender,
    values.map((value) => ({ value })),
  );

const resultsOf = (...figures: Figure[]): Results => {
  const results = new Results();
  results.figures.push(...figures);
  return results;
};

const rowOf = (results: Results, figure: string) => reachedOf(results).find((row) => row.figure === figure);

describe('what must be reached', () => {
  it.each([
    [[80, 10, 78], 0.78, 'reached'],
    [[74, 100, 10], 0.74, 'missed'],
  ])('judges %j by the median of the ratios of each round', (values, measured, verdict) => {
    const results = resultsOf(
      figure('list-20', 'embedded', ...values),
      figure('list-20', 'bare', 100, 100, 100),
    );

    expect(rowOf(results, 'list-20: embedded / bare')).toMatchObject({ measured, verdict });
  });

  it.each([
    [0.53, 85, 'reached'],
    [0.6, 86, 'missed'],
  ])('wants waits and processor time to be small: %d ms, %d µs', (p50, processor, verdict) => {
    const results = resultsOf(
      figureOf('create-1', 'embedded', [{ value: 1, p50 }]),
      figureOf('create-1', 'crud', [{ value: 1, p50: 0.3 }]),
      figureOf('create-256', 'embedded', [{ value: 1, processor }]),
    );

    expect(rowOf(results, 'create-1: embedded / crud, p50')?.verdict).toBe(verdict);
    expect(rowOf(results, 'create-256: embedded, processor')?.verdict).toBe(verdict);
  });

  it('was not run where one of the two was not, or did nothing', () => {
    const results = resultsOf(
      figure('list-20', 'embedded', 59),
      figure('create-256', 'embedded', 1_000),
      figure('create-256', 'typeorm', 0),
    );

    expect(new Set(reachedOf(results).map(({ verdict }) => verdict))).toEqual(new Set(['not run']));
  });
});

describe('the report of a benchmark', () => {
  it('shows median, spread, processor time and failures of each contender', () => {
    const results = resultsOf(
      figureOf('list-20', 'embedded', [
        { value: 900, processor: 90, failed: 1 },
        { value: 1_000, processor: 100, failed: 0 },
        { value: 1_100, processor: 110, failed: 1 },
      ]),
    );

    expect(resultText(about, results)).toMatch(
      /\| list-20 +\| embedded +\| 1,000 +\| requests\/s +\| 20 % +\| 100 +\|.*\| 2 +\|/,
    );
  });

  it('says what was not run and why, and what is broken', () => {
    const results = resultsOf();
    results.notRun['a peer'] = 'there is no PostgreSQL';
    results.broken.push('plants were lost');

    const text = resultText(about, results);
    expect(text).toContain('not run: a peer: there is no PostgreSQL');
    expect(text).toContain('plants were lost');
  });

  it('gives programs all rounds and all verdicts, and no name of the machine', () => {
    const json = JSON.parse(resultJson(about, resultsOf(figure('list-20', 'bare', 1, 2, 3)))) as {
      figures: Figure[];
      mustReach: unknown[];
    };

    expect(json.figures[0]?.samples.map(({ value }) => value)).toEqual([1, 2, 3]);
    expect(json.mustReach).toHaveLength(reachedOf(resultsOf()).length);
    expect(Object.keys(json)).not.toContain('hostname');
  });
});

describe('the chart of a benchmark', () => {
  it('gives each group a scale of its own, and the greatest bar all the width there is', () => {
    const results = resultsOf(
      figure('list-20', 'embedded', 500, 500, 200),
      figure('list-20', 'bare', 1_000, 2_000, 500),
      figure('list-20', 'else', 9),
      figure('create-256', 'embedded', 7),
    );

    const svg = chartOf(results, ['a footnote']);
    const widths = [...svg.matchAll(/<rect class="\w+" x="250" y="\d+" width="([\d.]+)"/g)].map(
      ([, width]) => width,
    );
    expect(widths).toEqual(['210.0', '420.0', '420.0']);
    expect(svg).toContain('>1,000 (0.4 ×)<');
    expect(svg).toContain('a footnote');
  });

  it('has no group of which nothing was measured', () => {
    expect(chartOf(resultsOf(), [])).not.toContain('class="title"');
  });
});

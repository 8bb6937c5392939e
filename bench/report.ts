import { type Machine } from './machine.js';
import { type Figure, type Results } from './results.js';
import { median, spread } from './statistics.js';
import { targetRows } from './targets.js';

/** What a run was. */
export interface RunAbout {
  readonly command: string;
  readonly at: string;
  readonly quick: boolean;
  readonly repeats: number;
  readonly seconds: number;
  readonly events: number;
  readonly owners: number;
  readonly machine: Machine;
  /** Versions of the servers that took part. */
  readonly servers: Readonly<Record<string, string>>;
}

/** Everything of a run, for programs. */
export const resultJson = (about: RunAbout, results: Results): string =>
  `${JSON.stringify(
    {
      ...about,
      mustReach: targetRows(results),
      figures: results.figures,
      proofs: results.proofs,
      broken: results.broken,
      notRun: results.missing,
    },
    null,
    2,
  )}\n`;

/** Everything of a run, for people: tables that Markdown shows, too. */
export const resultText = (about: RunAbout, results: Results): string => {
  const parts = [
    aboutText(about),
    `## Figures\n\n${figuresTable(results.figures)}`,
    `## Must reach\n\n${mustReachText(about, results)}`,
    list('Shown to hold', results.proofs),
    list(
      'Not run',
      results.missing.map(({ what, why }) => `not run: ${what}: ${why}`),
    ),
    list('Broken', results.broken),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
};

const aboutText = ({ machine, quick, repeats, seconds, command, at, servers }: RunAbout): string =>
  [
    `\`${command}\`, ${at}: the median of ${repeats} ${repeats === 1 ? 'round' : 'rounds'} of ${seconds} s each. ${
      quick ? 'A quick run: it shows that everything works, and its figures say nothing. ' : ''
    }Compare figures of one run only.`,
    `${machine.cores} cores (${machine.processor}), ${machine.memoryGiB} GiB, ${machine.system}, Node ${machine.node}; load by ${machine.loadGenerator}, on the same cores.`,
    ...Object.entries(servers).map(([name, version]) => `${name}: ${version}.`),
    ...(machine.storesInMemory
      ? ['The temporary folder is in memory, so no fsync took time: set TMPDIR to a folder on a disk.']
      : []),
  ].join('\n');

const COLUMNS = [
  'workload',
  'contender',
  'median',
  'unit',
  'spread',
  'CPU µs',
  'servers µs',
  'p50',
  'p99',
  'p99.9',
  'failed',
];

export const figuresTable = (figures: readonly Figure[]): string =>
  table(
    COLUMNS,
    figures.map((figure) => [
      figure.workload,
      figure.contender,
      amount(median(figure.values)),
      figure.unit,
      figure.values.length > 1 ? `${(100 * spread(figure.values)).toFixed(0)} %` : '',
      medianOf(figure.processor),
      medianOf(figure.serversProcessor),
      medianOf(figure.p50),
      medianOf(figure.p99),
      medianOf(figure.p999),
      figure.failed === undefined || figure.failed === 0 ? '' : `${figure.failed}`,
    ]),
  );

const mustReachText = ({ quick }: RunAbout, results: Results): string => {
  const rows = targetRows(results).map(({ figure, atLeast, measured, verdict }) => [
    figure,
    atLeast,
    measured,
    verdict,
  ]);
  const note = quick ? 'Of a quick run, with a small log: none of these counts.\n\n' : '';
  return `${note}${table(['figure', 'at least', 'measured', ''], rows)}`;
};

const list = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : `## ${title}\n\n${lines.map((line) => `- ${line}`).join('\n')}`;

const medianOf = (values: readonly number[] | undefined): string =>
  values === undefined ? '' : amount(median(values));

/** Three digits or all before the point, whichever is more. */
const amount = (value: number): string => {
  const digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
};

/** A table of Markdown whose columns stand below each other. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string => {
  const widths = head.map((title, column) =>
    Math.max(title.length, 3, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
};

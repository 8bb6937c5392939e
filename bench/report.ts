import { statfsSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os';
import { loadGenerator } from './load.js';
import { reachedOf } from './must-reach.js';
import { type Figure, type Results, roundsOf, type Sample, type Sizes } from './results.js';
import { median, spread } from './statistics.js';

/** The `f_type` of Linux' file systems in memory: tmpfs and ramfs. */
const IN_MEMORY = [0x01021994, 0x858458f6];

/** The options of a run and the size of its machine, without the machine's name and paths. */
export const aboutRun = (quick: boolean, sizes: Sizes) => ({
  command: ['npm run bench --', ...process.argv.slice(2)].join(' ').replace(/ --$/, ''),
  at: new Date().toISOString().slice(0, 10),
  quick,
  sizes,
  cores: availableParallelism(),
  processor: cpus()[0]?.model.trim() ?? 'unknown',
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  system: `${process.platform} ${process.arch}`,
  node: process.version,
  loadGenerator: loadGenerator ?? 'nothing',
  /** Then nothing durable is slow. */
  storesInMemory: IN_MEMORY.includes(statfsSync(tmpdir()).type),
});
export type About = ReturnType<typeof aboutRun>;

/** Everything of a run, for programs. */
export const resultJson = (about: About, results: Results): string =>
  `${JSON.stringify(Object.assign({ mustReach: reachedOf(results) }, about, results), null, 2)}\n`;

/** Everything of a run, for people: tables that Markdown shows, too. */
export const resultText = (about: About, results: Results): string => {
  const notRun = Object.entries(results.notRun).map(([what, why]) => `not run: ${what}: ${why}`);
  const parts = [
    aboutText(about, results),
    `## Figures\n\n${figuresTable(results.figures)}`,
    `## Must reach\n\n${mustReachText(about, results)}`,
    list('Shown to hold', results.proofs),
    list('Not run', notRun),
    list('Broken', results.broken),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
};

const aboutText = (about: About, { servers }: Results): string => {
  const { repeats, seconds } = about.sizes;
  return [
    `\`${about.command}\`, ${about.at}: the median of ${repeats} ${repeats === 1 ? 'round' : 'rounds'} of ${seconds} s each. Compare figures of one run only.`,
    ...(about.quick ? ['A quick run: it shows that everything works, and its figures say nothing.'] : []),
    `${about.cores} cores (${about.processor}), ${about.memoryGiB} GiB, ${about.system}, Node ${about.node}; load by ${about.loadGenerator}, on the same cores.`,
    ...Object.entries(servers).map(([name, version]) => `${name}: ${version}.`),
    ...(about.storesInMemory
      ? ['The temporary folder is in memory, so no fsync took time: set TMPDIR to a folder on a disk.']
      : []),
  ].join('\n');
};

/** The columns of numbers, and what they are of a sample. */
const COLUMNS: Readonly<Record<string, keyof Sample>> = {
  'CPU µs': 'processor',
  'servers µs': 'serversProcessor',
  p50: 'p50',
  p99: 'p99',
  'p99.9': 'p999',
};

const figuresTable = (figures: readonly Figure[]): string =>
  table(
    ['workload', 'contender', 'median', 'unit', 'spread', ...Object.keys(COLUMNS), 'failed'],
    figures.map((figure) => {
      const values = roundsOf(figure);
      const failed = roundsOf(figure, 'failed').reduce((sum, each) => sum + each, 0);
      return [
        ...[figure.workload, figure.contender, amount(median(values)), figure.unit],
        values.length > 1 ? `${(100 * spread(values)).toFixed(0)} %` : '',
        ...Object.values(COLUMNS).map((name) => amount(median(roundsOf(figure, name)))),
        failed === 0 ? '' : `${failed}`,
      ];
    }),
  );

const mustReachText = ({ quick }: About, results: Results): string => {
  const rows = reachedOf(results).map((row) => [row.figure, row.wanted, amount(row.measured), row.verdict]);
  const note = quick ? 'Of a quick run, with a small log: none of these counts.\n\n' : '';
  return `${note}${table(['figure', 'wanted', 'measured', ''], rows)}`;
};

const list = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : `## ${title}\n\n${lines.map((line) => `- ${line}`).join('\n')}`;

/** Three digits or all before the point, whichever is more; nothing for what was not measured. */
const amount = (value: number): string => {
  if (!Number.isFinite(value)) return '';
  const digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
};

/** A table of Markdown whose columns stand below each other. */
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string => {
  const widths = head.map((title, column) =>
    Math.max(title.length, 3, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
};

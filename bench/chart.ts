import { type Results } from './results.js';
import { median, ratios } from './statistics.js';

/** One bar. */
export interface Bar {
  readonly label: string;
  readonly value: number;
  /** Ours, whose bars stand out. */
  readonly own: boolean;
  /** How many times as much the embedded service does, as the median of the ratios of each round. */
  readonly times?: number;
}

/** Bars that are compared with each other. */
export interface BarGroup {
  readonly title: string;
  readonly bars: readonly Bar[];
}

const LABELS: Readonly<Record<string, string>> = {
  embedded: 'this service, embedded',
  servers: 'this service, log server + Redis',
  crud: 'Fastify + one SQLite table (CRUD)',
  typeorm: 'NestJS + TypeORM + PostgreSQL',
  'typeorm-key': 'the same, its secret as a key',
  emmett: 'Emmett + PostgreSQL',
  bare: 'limit: bare node:http',
  commits: 'limit: bare SQLite commits',
};

const GROUPS = [
  { workload: 'list-20', title: 'Lists of 20, requests a second' },
  { workload: 'create-256', title: 'Durable creates at 256 connections, requests a second' },
] as const;

/** What of a run is shown as a chart. */
export const chartGroups = (results: Results): BarGroup[] =>
  GROUPS.flatMap(({ workload, title }) => {
    const embedded = results.find(workload, 'embedded');
    const bars = Object.entries(LABELS).flatMap(([contender, label]) => {
      const figure = results.find(workload, contender);
      const own = contender === 'embedded' || contender === 'servers';
      if (!figure) return [];
      const bar = { label, value: median(figure.values), own };
      return [own || !embedded ? bar : { ...bar, times: median(ratios(embedded.values, figure.values)) }];
    });
    return bars.length > 0 ? [{ title, bars }] : [];
  });

const WIDTH = 800;
const LABEL_WIDTH = 250;
/** Of the value and, in brackets, the ratio. */
const VALUE_WIDTH = 130;
const BAR_HEIGHT = 20;
const ROW = 28;
const TITLE = 40;

/**
 * A bar chart as SVG, each group to its own scale. Its colours are readable on white and on black, and its text takes
 * the reader's colour scheme where the viewer knows it.
 */
export const barChart = (groups: readonly BarGroup[], footnotes: readonly string[]): string => {
  let y = 0;
  const parts: string[] = [];
  for (const { title, bars } of groups) {
    parts.push(`<text class="title" x="0" y="${y + 24}">${escaped(title)}</text>`);
    y += TITLE;
    const greatest = Math.max(...bars.map(({ value }) => value));
    for (const { label, value, own, times } of bars) {
      const width = Math.max(1, ((WIDTH - LABEL_WIDTH - VALUE_WIDTH) * value) / greatest);
      const middle = y + BAR_HEIGHT / 2 + 5;
      parts.push(
        `<text x="${LABEL_WIDTH - 10}" y="${middle}" text-anchor="end">${escaped(label)}</text>`,
        `<rect class="${own ? 'own' : 'other'}" x="${LABEL_WIDTH}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" rx="2"/>`,
        `<text x="${(LABEL_WIDTH + width + 8).toFixed(1)}" y="${middle}">${Math.round(value).toLocaleString('en')}${times === undefined ? '' : ` (${Number(times.toPrecision(2))} ×)`}</text>`,
      );
      y += ROW;
    }
    y += 12;
  }
  for (const line of footnotes) {
    parts.push(`<text class="note" x="0" y="${y + 14}">${escaped(line)}</text>`);
    y += 18;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 6}" role="img" aria-label="${escaped(groups.map(({ title }) => title).join('; '))}">
<style>
text { font: 14px system-ui, sans-serif; fill: #57606a }
.title { font-weight: 600 }
.note { font-size: 12px }
.own { fill: #2da44e }
.other { fill: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #b1bac4 } }
</style>
${parts.join('\n')}
</svg>
`;
};

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

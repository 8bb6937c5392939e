import { CONTENDERS } from './contenders.js';
import { ratioOf } from './must-reach.js';
import { type Results, roundsOf } from './results.js';
import { median } from './statistics.js';

/** Bars that are compared with each other. */
const GROUPS = {
  'list-20': 'Lists of 20, requests a second',
  'create-256': 'Durable creates at 256 connections, requests a second',
};

const WIDTH = 800;
const LABEL_WIDTH = 250;
/** Of the value and, in brackets, the ratio. */
const VALUE_WIDTH = 130;
const BAR_HEIGHT = 20;
const ROW = 28;

/**
 * A bar chart of a run as SVG, each group to its own scale. Its colours are readable on white and on black, and its text
 * takes the reader's colour scheme where the viewer knows it.
 */
export const chartOf = (results: Results, footnotes: readonly string[]): string => {
  let y = 0;
  const parts: string[] = [];
  for (const [workload, title] of Object.entries(GROUPS)) {
    const embedded = results.find(workload, 'embedded');
    const bars = Object.entries(CONTENDERS).flatMap(([contender, label]) => {
      const figure = results.find(workload, contender);
      const own = contender === 'embedded' || contender === 'servers';
      if (!figure || contender === 'stubbed') return [];
      const times = own || !embedded ? '' : ` (${Number(ratioOf(embedded, figure).toPrecision(2))} ×)`;
      return [{ label, value: median(roundsOf(figure)), own, times }];
    });
    if (bars.length === 0) continue;
    parts.push(`<text class="title" x="0" y="${y + 24}">${title}</text>`);
    y += 40;
    const greatest = Math.max(...bars.map(({ value }) => value));
    for (const { label, value, own, times } of bars) {
      const width = Math.max(1, ((WIDTH - LABEL_WIDTH - VALUE_WIDTH) * value) / greatest);
      const middle = y + BAR_HEIGHT / 2 + 5;
      parts.push(
        `<text x="${LABEL_WIDTH - 10}" y="${middle}" text-anchor="end">${label}</text>`,
        `<rect class="${own ? 'own' : 'other'}" x="${LABEL_WIDTH}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" rx="2"/>`,
        `<text x="${(LABEL_WIDTH + width + 8).toFixed(1)}" y="${middle}">${Math.round(value).toLocaleString('en')}${times}</text>`,
      );
      y += ROW;
    }
    y += 12;
  }
  for (const line of footnotes) {
    parts.push(`<text class="note" x="0" y="${y + 14}">${line}</text>`);
    y += 18;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 6}" role="img" aria-label="${Object.values(GROUPS).join('; ')}">
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

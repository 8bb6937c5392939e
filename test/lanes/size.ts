/**
 * `npm run size`: the lines of each room, and the words that people read, beside the figures of docs/architecture.md.
 * Fails where a room is above its figure, and where the diagram there is not that of the imports. `npm run size -- --write`
 * draws the diagram and lowers the figures to what is there; a new room gets its first.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { argv } from 'node:process';
import { diagramOf } from './diagram.js';

const PAGE = 'docs/architecture.md';

/** Files that are generated, or that are data. */
const NOT_COUNTED = /lock\.json$|\.(?:gz|ndjson|pem|svg|json)$|^docs\/(?:bench\/|messages\.md$)/;

const filesIn = (...paths: readonly string[]): string[] =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...paths], {
    encoding: 'utf8',
  })
    .split('\n')
    .filter((file) => existsSync(file) && !NOT_COUNTED.test(file));

const count = (files: readonly string[], pattern: RegExp): number => {
  let all = 0;
  for (const file of files) all += readFileSync(file, 'utf8').match(pattern)?.length ?? 0;
  return all;
};

/** A room is a folder, such as `src/http`, or `words`: those of README and docs. */
const sizeOf = (room: string): number =>
  room === 'words'
    ? count(
        filesIn('README.md', 'docs').filter((file) => file.endsWith('.md')),
        /\S+/g,
      )
    : count(filesIn(room), /\n/g);

const page = readFileSync(PAGE, 'utf8');
const [before = '', table = ''] = page.split(/(?<=\n## Size\n)/);
const ROWS = /(?:^\| `?[\w/]+`? \| \d+ \|\n)+/m;
const figures = new Map(
  [...table.matchAll(/^\| `?([\w/]+)`? \| (\d+) \|$/gm)].map(([, room = '', most]) => [room, Number(most)]),
);
const sources = filesIn('src');
const folders = [...new Set(sources.map((file) => file.split('/').slice(0, 2).join('/')))].sort();
const rooms = [...folders, ...[...figures.keys()].filter((room) => !room.startsWith('src/'))];

let ok = true;
const rows = rooms.map((room) => {
  const size = sizeOf(room);
  const most = figures.get(room) ?? (argv.includes('--write') ? size : 0);
  const above = size > most;
  ok &&= !above;
  process.stdout.write(
    `${room.padEnd(15)} ${String(size).padEnd(8)} ${most}${above ? `  ABOVE: take it down, or say in ${PAGE} why not` : ''}\n`,
  );
  return `| ${room === 'words' ? room : `\`${room}\``} | ${Math.min(size, most)} |\n`;
});

const drawn = before.replace(/^```mermaid\n[^]*?^```$/m, diagramOf(sources));
if (argv.includes('--write')) writeFileSync(PAGE, drawn + table.replace(ROWS, rows.join('')));
else if (drawn !== before) {
  ok = false;
  process.stdout.write(`The diagram of ${PAGE} is not that of the imports: npm run size -- --write\n`);
}
if (!ok) process.exitCode = 1;

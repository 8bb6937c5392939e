/**
 * `npm run size`: the lines of each room, and the words that people read, beside the figures of docs/architecture.md.
 * Fails where a room is above its figure; those figures only go down.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/** Files that nobody writes by hand, or that are data. */
const NOT_COUNTED = /lock\.json$|\.(?:gz|ndjson|pem|svg|json)$/;

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

/** What a row of the table is about: `src/http`, a folder; or `words`, of README and docs. */
const sizeOf = (room: string): number =>
  room === 'words'
    ? count(
        filesIn('README.md', 'docs').filter((file) => file.endsWith('.md')),
        /\S+/g,
      )
    : count(filesIn(room), /\n/g);

const table = readFileSync('docs/architecture.md', 'utf8').split('\n## Size\n')[1]?.split('\n## ')[0] ?? '';
const rows = [...table.matchAll(/^\| `?([\w/]+)`? \| ([\d,]+) \|/gm)].map(
  ([, room = '', most = '']) => [room, Number(most.replaceAll(',', ''))] as const,
);
const rooms = rows.map(([room]) => room);
const missing = [...new Set(filesIn('src').map((file) => file.split('/').slice(0, 2).join('/')))].filter(
  (room) => !rooms.includes(room),
);

process.stdout.write('room            is       at most\n');
for (const [room, most] of rows) {
  const size = sizeOf(room);
  const above = size > most;
  if (above) process.exitCode = 1;
  process.stdout.write(
    `${room.padEnd(15)} ${String(size).padEnd(8)} ${most}${above ? '  ABOVE: take it down, or say in docs/architecture.md why not' : ''}\n`,
  );
}
if (missing.length > 0) {
  process.exitCode = 1;
  process.stdout.write(`docs/architecture.md has no figure for ${missing.join(', ')}\n`);
}

import { readFileSync } from 'node:fs';

const roomOf = (file: string): string => file.split('/').slice(0, 2).join('/');
const nameOf = (room: string): string => room.slice('src/'.length);

/** For each room, the rooms that it imports, and how many of its files do. */
type Imports = ReadonlyMap<string, ReadonlyMap<string, number>>;

const importsOf = (files: readonly string[]): Imports => {
  const imports = new Map<string, Map<string, number>>();
  for (const file of files) imports.set(roomOf(file), new Map());
  for (const file of files) {
    const named = readFileSync(file, 'utf8').matchAll(/(?:from|import\()\s*'(\.[^']+)'/g);
    const paths = [...named].map(([, path = '']) => new URL(path, `file:///${file}`).pathname.slice(1));
    const from = imports.get(roomOf(file));
    for (const room of new Set(paths.map(roomOf)))
      if (room !== roomOf(file) && imports.has(room)) from?.set(room, (from.get(room) ?? 0) + 1);
  }
  return imports;
};

/** The rooms that one imports, itself, and those that they import. */
const closureOf = (imports: Imports, room: string, seen = new Set<string>()): Set<string> => {
  if (!seen.has(room)) {
    seen.add(room);
    for (const other of imports.get(room)?.keys() ?? []) closureOf(imports, other, seen);
  }
  return seen;
};

/** The rooms, each before those that it imports. A circle begins with the room that the fewest others import. */
const fromTheTop = (imports: Imports): string[] => {
  const rooms = [...imports.keys()].sort();
  const below = new Map(rooms.map((room) => [room, closureOf(imports, room).size]));
  const above = (room: string): number => rooms.filter((one) => imports.get(one)?.has(room)).length;
  return rooms.sort(
    (one, other) => (below.get(other) ?? 0) - (below.get(one) ?? 0) || above(one) - above(other),
  );
};

/**
 * The rooms of these files as a Mermaid flowchart. An arrow that others imply is left out; a dotted one, with the number
 * of files, goes up in a circle.
 */
export const diagramOf = (files: readonly string[]): string => {
  const imports = importsOf(files);
  const order = fromTheTop(imports);
  const below = new Map<string, Set<string>>();
  const lines: string[] = [];
  for (const room of order.toReversed()) {
    const reached = new Set<string>();
    const drawn: string[] = [];
    for (const other of order.filter((one) => imports.get(room)?.has(one))) {
      const further = below.get(other);
      const count = imports.get(room)?.get(other);
      if (!further) lines.push(`  ${nameOf(room)} -. ${count} .-> ${nameOf(other)}`);
      else if (!reached.has(other)) drawn.push(nameOf(other));
      for (const one of further ? [other, ...further] : []) reached.add(one);
    }
    below.set(room, reached);
    if (drawn.length > 0) lines.push(`  ${nameOf(room)} --> ${drawn.join(' & ')}`);
  }
  return ['```mermaid', 'flowchart TD', ...lines.toReversed(), '```'].join('\n');
};

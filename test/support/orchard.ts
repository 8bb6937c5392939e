import { type EventLog, type EventMetadata } from '../../src/log/event-log.js';
import { randomId } from '../../src/runtime/runtime.js';
import { execute } from '../../src/commands/execute.js';

/** The kind of the tree in each row. */
type Orchard = ReadonlyMap<number, string>;

type OrchardCommand = { type: 'PlantTree'; row: number; kind: string } | { type: 'FellTree'; row: number };

type OrchardEvent =
  | { type: 'TreePlanted'; data: { row: number; kind: string } }
  | { type: 'TreeFelled'; data: { row: number } };

const decide = (command: OrchardCommand, orchard: Orchard): OrchardEvent[] => {
  const { row } = command;
  switch (command.type) {
    case 'PlantTree':
      if (orchard.has(row)) throw new Error(`row ${row} has a tree: fell it first`);
      return [{ type: 'TreePlanted', data: { row, kind: command.kind } }];
    case 'FellTree':
      if (!orchard.has(row)) throw new Error(`row ${row} has no tree`);
      return [{ type: 'TreeFelled', data: { row } }];
  }
};

const evolve = (orchard: Orchard, event: OrchardEvent): Orchard => {
  const after = new Map(orchard);
  if (event.type === 'TreePlanted') after.set(event.data.row, event.data.kind);
  else after.delete(event.data.row);
  return after;
};

export const readOrchard = async (log: EventLog, stream: string) => {
  const stored = await log.readStream(stream);
  const events = stored.map(({ type, data }) => ({ type, data }) as OrchardEvent); // a codec checks them first
  return { state: events.reduce(evolve, new Map<number, string>()), revision: stored.at(-1)?.revision };
};

export const change = async (
  log: EventLog,
  stream: string,
  command: OrchardCommand,
  metadata: EventMetadata,
) =>
  execute(log, stream, {
    races: 5,
    read: () => readOrchard(log, stream),
    decide: (orchard) => decide(command, orchard).map((event) => ({ ...event, id: randomId(), metadata })),
    tooManyRaces: () => new Error('others change this orchard at the same time: try again'),
  });

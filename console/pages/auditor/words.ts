/** Names of events for people. */
import { type LogEvent } from '../../../src/transparency/event.js';
import { isObject } from '../../../src/transparency/json.js';

const WORDS: Readonly<Record<string, string>> = {
  PlantCreated: 'Plant added',
  PlantDeleted: 'Plant deleted',
  RequestAccepted: 'Request with a key',
  RebuildRequested: 'Rebuild asked for',
  RebuildStarted: 'Rebuild started',
  RebuildPromoted: 'Rebuild promoted',
  RebuildCancelled: 'Rebuild cancelled',
  RollbackRequested: 'Rollback asked for',
  RolledBack: 'Rolled back',
  RebuildClosed: 'Rebuild closed',
  EventSkipped: 'Event skipped',
  SigningStarted: 'Signing started',
  CheckpointRecorded: 'Checkpoint recorded',
  ErasureStarted: 'Erasure started',
  OwnerErased: 'Owner erased',
  ErasureFinished: 'Erasure finished',
  ErasureCancelled: 'Erasure cancelled',
  ErasureOrdered: 'Erasure ordered',
  Erased: 'Erased event',
};

/** Types that are offered where one is typed. */
export const TYPES = Object.keys(WORDS);

/** The type of an event in words; as it stands where it has none. */
export const wordOf = (type: string): string => WORDS[type] ?? type;

/** The name of an event's plant, or its stream. */
export const subjectOf = ({ data, stream }: Pick<LogEvent, 'data' | 'stream'>): string => {
  const { name } = isObject(data) ? data : {};
  if (typeof name === 'string') return name;
  const [, id] = /^plant-[^/]*\/(-?\d+)$/.exec(stream) ?? [];
  return id === undefined ? stream : `plant ${id}`;
};

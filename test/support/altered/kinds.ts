import { FILE_KINDS } from './files.js';
import { type Kind, type State, STATES } from './kind.js';
import { ROW_KINDS } from './rows.js';
import { TREE_KINDS } from './tree.js';

/** Every way to alter a DATA_DIR, by its name. */
export const WAYS: Readonly<Record<string, Kind>> = { ...ROW_KINDS, ...TREE_KINDS, ...FILE_KINDS };

/** The ways of each kind. */
export const KINDS: Readonly<Record<string, readonly string[]>> = {
  'what an event says': ['event: a name', 'event: its type', 'event: its id', 'event: made unreadable'],
  "an event's metadata": ['event: who did it', 'event: its correlation id'],
  "an event's time": ['event: a time'],
  "a stream's name": ["event: its stream's name"],
  'a revision': ['event: its revision'],
  'a text that says the same': Object.keys(WAYS).filter((way) => way.startsWith('text: ')),
  'an event removed': ['event: removed'],
  'the end removed': ['events: the end removed'],
  'two events swapped': ['events: two swapped'],
  'an event put in': ['event: put in'],
  'events renumbered': ['events: renumbered from one on', 'event: the last one moved'],
  'a record of a checkpoint': ['record of a checkpoint: changed', 'record of a checkpoint: removed'],
  'an event appended by SQL, its time is wrong': [
    'event: appended with an old time',
    'event: appended with a time to come',
  ],
  'an event appended by SQL, its form or revision is wrong': [
    'event: appended with a gap before it',
    'event: appended in another form',
  ],
  'an event appended by SQL as the service writes it': ['event: appended as the service writes it'],
  'an event before it was signed': ['event: the last one, before it was signed'],
  'rules and identity of events.db': [
    'rules of the log: one dropped',
    'rules of the log: one added',
    'identity of the log',
  ],
  'a letter in the index of events.db': ['index of the log: a letter'],
  'a letter in a page of events.db': ['page of the log: a letter'],
  'a page that is damaged': ['page of the log: zeros', 'page of the index: zeros', 'page of the tree: zeros'],
  'events.db cut off': ['file of the log: its end cut off'],
  'a stored checkpoint': [
    'stored checkpoint: its signature',
    'stored checkpoint: its text',
    'stored checkpoint: its root',
  ],
  'the key of a stored checkpoint': [
    'stored checkpoint: its key id',
    'stored checkpoint: signed by another key',
  ],
  'the time of a stored checkpoint, by a day': ['stored checkpoint: its time, by a day'],
  'the time of a stored checkpoint, by 30 s': ['stored checkpoint: its time, by 30 s'],
  'a stored checkpoint removed': ['stored checkpoint: removed'],
  'a tile': ['tile: the hash of an event', 'tile: a hash above the events', 'tile: removed', 'tile: cut'],
  'the map of positions in tree.db': ['mark of a position: changed', 'mark of a position: removed'],
  'the state of the tree': [
    'tree: the hashes that it consists of',
    'tree: how many events it has',
    'tree: up to which position it is',
    'tree: the log that it is of',
  ],
  'rules of tree.db': ['rules of the tree: one dropped'],
  'events.db from a snapshot': ['snapshot: events.db'],
  'tree.db from a snapshot': ['snapshot: tree.db'],
  'events.db and tree.db from a snapshot': ['snapshot: events.db and tree.db'],
  'tree.db removed': ['tree.db removed'],
  'tree.db removed, an event before the last record altered': [
    'tree.db removed, an event before the last record',
  ],
  'tree.db removed, an event after the last record altered': [
    'tree.db removed, an event after the last record',
  ],
  'the audit key': ['audit key: removed', 'audit key: another one', 'audit key: damaged'],
  'tree.db and the audit key removed': ['tree.db and audit key removed'],
  'an event altered, and everything signed again with the key': [
    'everything made and signed again with the key',
  ],
};

/** The states in which a kind is altered. */
export const statesOf = (kind: string): readonly State[] => WAYS[KINDS[kind]?.[0] ?? '']?.states ?? STATES;

/**
 * Not found with DATA_DIR alone; and the checkpoint that someone else has kept: `contradicted` by what is signed now, or
 * `extended`, so that it does not help either. docs/audit.md says who can find it.
 */
export const NOT_FOUND: Readonly<Record<string, 'contradicted' | 'extended'>> = {
  'event: appended as the service writes it': 'extended',
  'event: the last one, before it was signed': 'extended',
  'stored checkpoint: removed': 'extended',
  'stored checkpoint: its time, by 30 s': 'extended',
  'snapshot: events.db and tree.db': 'contradicted',
  'everything made and signed again with the key': 'contradicted',
};

/** Found by a warning about tree.db, which names no event: a kept checkpoint shows that the log was altered. */
export const ONLY_WARNED = 'tree.db removed, an event after the last record';

/** Found at the next start: a running service does not read it again. */
export const AT_NEXT_START: readonly string[] = [
  'event: appended with an old time', // or with the next event: a running service reads what it has appended
  'event: appended with a time to come',
  'audit key: removed',
  'audit key: another one',
  'audit key: damaged',
  'tree: the log that it is of',
  'rules of the tree: one dropped',
  'page of the tree: zeros', // where SQLite has it in memory
];

import { type Registry } from 'prom-client';
import { AUDITOR_STATES, type AuditorOfProcess, type AuditorStatus } from '../../audit/auditor-status.js';
import { type Eraser } from '../../erasure/eraser.js';
import { type WitnessStatus } from '../../audit/witnessing.js';
import { onlyOne, showGauge, showLabelledGauge } from './gauge.js';

const STATES = Object.keys(AUDITOR_STATES);

/** A gauge without labels: its name, its help and its value; absent from a scrape where that is undefined. */
type TreeGauge = readonly [
  name: string,
  help: string,
  value: (status: AuditorStatus, age: (at: string) => number) => number | undefined,
];

const GAUGES: readonly TreeGauge[] = [
  ['plants_tree_size', 'Events in the tree of this process.', ({ size }) => size],
  [
    'plants_tree_alarm',
    '1 while the log, or the tree, is not what was signed, else 0.',
    ({ alarm }) => (alarm ? 1 : 0),
  ],
  [
    'plants_tree_signing_warnings',
    'Warnings about what is signed: another key, another tree, or another history than the log records.',
    ({ signing }) => signing?.warnings.length ?? 0,
  ],
  [
    'plants_tree_doubtful_times',
    'Events whose times contradict the checkpoints signed around them, as the last re-reading found.',
    ({ times }) => times?.count ?? 0,
  ],
  [
    'plants_tree_unsigned_events',
    'Events in the tree that no checkpoint covers yet.',
    ({ size, checkpoint }) => Math.max(0, size - (checkpoint?.size ?? 0)),
  ],
  [
    'plants_tree_witnessed_size',
    'Events in the last tree that enough witnesses have cosigned; absent where no witnesses are set.',
    ({ witnessing }) => (witnessing ? (witnessing.size ?? 0) : undefined),
  ],
  [
    'plants_tree_checkpoint_age_seconds',
    'How long ago the last checkpoint was signed; absent before the first one.',
    ({ checkpoint }, age) => checkpoint && age(checkpoint.signedAt),
  ],
  [
    'plants_tree_recheck_age_seconds',
    'How long ago the whole log was last found as it was signed; absent before the first time.',
    ({ recheckedAt }, age) => (recheckedAt === undefined ? undefined : age(recheckedAt)),
  ],
];

/** A gauge with a value for each witness. */
const WITNESS_GAUGES: readonly (readonly [
  name: string,
  help: string,
  value: (status: WitnessStatus) => number,
])[] = [
  ['plants_witness_size', 'Events in the last tree that a witness has cosigned.', ({ size }) => size ?? 0],
  [
    'plants_witness_failing',
    '1 while a witness cannot be reached or refuses the checkpoints of this log, else 0.',
    ({ state }) => (state === 'unreachable' || state === 'refuses' ? 1 : 0),
  ],
  [
    'plants_witness_disagrees',
    '1 while a witness has cosigned something that this tree is not proven to go on from, else 0.',
    ({ state }) => (state === 'disagrees' ? 1 : 0),
  ],
];

/** Adds the metrics of the auditor of this process. */
export const showTree = (registry: Registry, auditor: AuditorOfProcess, now: () => Date): void => {
  const age = (at: string): number => Math.max(0, (now().getTime() - Date.parse(at)) / 1_000);
  showLabelledGauge(
    registry,
    'plants_auditor_state',
    '1 for what the auditor of this process does, 0 for everything else.',
    'state',
    () => onlyOne(STATES, auditor.status.state),
  );
  for (const [name, help, valueOf] of WITNESS_GAUGES)
    showLabelledGauge(registry, name, help, 'witness', () =>
      (auditor.status.witnessing?.witnesses ?? []).map((one) => [one.witness, valueOf(one)]),
    );
  for (const [name, help, valueOf] of GAUGES)
    showGauge(registry, name, help, () => valueOf(auditor.status, age));
};

/** Adds the metrics of the erasures that the auditor's process carries out. */
export const showErasures = (registry: Registry, eraser: Pick<Eraser, 'progress' | 'problem'>): void => {
  showGauge(
    registry,
    'plants_erasures_in_progress',
    'Erasures of owners that are not over.',
    () => eraser.progress.length,
  );
  showGauge(registry, 'plants_erasure_held_up', '1 while an erasure is failing, else 0.', () =>
    eraser.problem === undefined ? 0 : 1,
  );
};

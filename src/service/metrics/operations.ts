import { type Registry } from 'prom-client';
import { lastRun } from '../../operations/last-runs.js';
import { type EventLog } from '../../log/event-log.js';
import { readSkipsInForce } from '../../commands/read-rebuilds.js';
import { BoundedLook } from './bounded-look.js';
import { showGauge } from './gauge.js';

/** Adds when this data folder's last backups and its last comparison were made, and what the comparison found. */
export const showLastRuns = (registry: Registry, dataDir: string): void => {
  const verify = new BoundedLook(() => lastRun(dataDir, 'verify'));
  for (const [name, what, look] of [
    [
      'plants_last_backup_timestamp_seconds',
      'When plants backup last made a backup',
      new BoundedLook(() => lastRun(dataDir, 'backup')),
    ],
    [
      'plants_last_proven_backup_timestamp_seconds',
      'Up to when the last backup holds everything that was proven to hold what was signed',
      new BoundedLook(() => lastRun(dataDir, 'proven-backup')),
    ],
    ['plants_last_verify_timestamp_seconds', 'When the lists were last compared with the log', verify],
  ] as const)
    showGauge(registry, name, `${what}, in seconds since 1970; absent where none was recorded.`, async () =>
      secondsOf((await look.result())?.at),
    );
  showGauge(
    registry,
    'plants_last_verify_differing_plants',
    'Plants that differed in that comparison.',
    async () => (await verify.result())?.differing,
  );
};

/** Adds how many events are left out of the lists by decision of an operator. */
export const showSkips = (registry: Registry, log: EventLog): void => {
  const look = new BoundedLook(async () => (await readSkipsInForce(log)).size);
  showGauge(
    registry,
    'plants_skipped_events',
    'Events that the lists leave out, since an operator has decided so; absent where the log does not answer.',
    async () => await look.result(),
  );
};

const secondsOf = (at: string | undefined): number | undefined =>
  at === undefined ? undefined : Date.parse(at) / 1_000;

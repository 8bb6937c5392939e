import { Gauge, type Registry } from 'prom-client';
import { lastBackup, lastVerify } from '../operations/last-runs.js';
import { type EventLog } from '../ports/event-log.js';
import { readSkipsInForce } from '../rebuilds/read.js';
import { BoundedLook } from './bounded-look.js';

/** Adds when this data folder's last backup and its last comparison were made, and what the comparison found. */
export const showLastRuns = (registry: Registry, dataDir: string): void => {
  const registers = [registry];
  const backup = new BoundedLook(() => lastBackup(dataDir));
  const verify = new BoundedLook(() => lastVerify(dataDir));
  new Gauge({
    name: 'plants_last_backup_timestamp_seconds',
    aggregator: 'max',
    help: 'When plants backup last made a backup, in seconds since 1970; absent where none was recorded.',
    registers,
    async collect() {
      show(this, secondsOf((await backup.result())?.at));
    },
  });
  new Gauge({
    name: 'plants_last_verify_timestamp_seconds',
    aggregator: 'max',
    help: 'When the lists were last compared with the log, in seconds since 1970; absent where that was not recorded.',
    registers,
    async collect() {
      show(this, secondsOf((await verify.result())?.at));
    },
  });
  new Gauge({
    name: 'plants_last_verify_differing_plants',
    aggregator: 'max',
    help: 'Plants that differed in that comparison.',
    registers,
    async collect() {
      show(this, (await verify.result())?.differing);
    },
  });
};

/** Adds how many events are left out of the lists by decision of an operator. */
export const showSkips = (registry: Registry, log: EventLog): void => {
  const look = new BoundedLook(async () => (await readSkipsInForce(log)).size);
  new Gauge({
    name: 'plants_skipped_events',
    aggregator: 'max',
    help: 'Events that the lists leave out, since an operator has decided so; absent where the log does not answer.',
    registers: [registry],
    async collect() {
      show(this, await look.result());
    },
  });
};

const secondsOf = (at: string | undefined): number | undefined =>
  at === undefined ? undefined : Date.parse(at) / 1_000;

/** An unknown value is no sample: 0 would say that all is well. */
const show = (gauge: Gauge, value: number | undefined): void => {
  if (value === undefined) gauge.remove();
  else gauge.set(value);
};

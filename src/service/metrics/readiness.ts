import { type Registry } from 'prom-client';
import { showLabelledGauge } from './gauge.js';

/** By name of the parts of `/health/ready`: true where one works. */
export type ReadyParts = () => Promise<Readonly<Record<string, boolean>>>;

/** Adds what `/health/ready` says. `parts` takes as long as that at most, 2 s; where it rejects, nothing is shown. */
export const showReadiness = (registry: Registry, parts: ReadyParts): void => {
  let looking: ReturnType<ReadyParts> | undefined;
  showLabelledGauge(
    registry,
    'plants_ready',
    '1 for each part of /health/ready that works, else 0.',
    'part',
    async () => {
      looking ??= parts()
        .catch(() => ({}))
        .finally(() => (looking = undefined));
      return Object.entries(await looking).map(([part, works]) => [part, works ? 1 : 0] as const);
    },
  );
};

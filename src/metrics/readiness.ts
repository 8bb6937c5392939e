import { Gauge, type Registry } from 'prom-client';

/** Whether each part that `/health/ready` names works. */
export type ReadyParts = () => Promise<Readonly<Record<string, boolean>>>;

/** Adds what `/health/ready` says. `parts` takes as long as that at most, 2 s; where it rejects, nothing is shown. */
export const showReadiness = (registry: Registry, parts: ReadyParts): void => {
  let looking: ReturnType<ReadyParts> | undefined;
  new Gauge({
    name: 'plants_ready',
    aggregator: 'min',
    help: '1 for each part of /health/ready that works, else 0.',
    labelNames: ['part'],
    registers: [registry],
    async collect() {
      looking ??= parts()
        .catch(() => ({}))
        .finally(() => (looking = undefined));
      const found = await looking;
      this.reset();
      for (const [part, works] of Object.entries(found)) this.set({ part }, works ? 1 : 0);
    },
  });
};

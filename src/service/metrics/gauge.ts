import { Counter, Gauge, type Registry } from 'prom-client';

/** A value, or a promise of it that does not reject. */
type Now<Value> = () => Value | Promise<Value>;

/** Adds a gauge whose value is asked for at each scrape. An undefined value is no sample: 0 would say that all is well. */
export const showGauge = (
  registry: Registry,
  name: string,
  help: string,
  now: Now<number | undefined>,
): void => {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await now();
      if (value === undefined) this.remove();
      else this.set(value);
    },
  });
};

/** As `showGauge`, with a value for each value of one label. */
export const showLabelledGauge = (
  registry: Registry,
  name: string,
  help: string,
  label: string,
  now: Now<Iterable<readonly [string, number]>>,
): void => {
  new Gauge({
    name,
    help,
    labelNames: [label],
    registers: [registry],
    async collect() {
      const values = await now();
      this.reset();
      for (const [labelled, value] of values) this.set({ [label]: labelled }, value);
    },
  });
};

/** Adds a counter of what is counted elsewhere, with a value for each value of one label. */
export const showCounter = (
  registry: Registry,
  name: string,
  help: string,
  label: string,
  now: () => Readonly<Record<string, number>>,
): void => {
  new Counter({
    name,
    help,
    labelNames: [label],
    registers: [registry],
    collect() {
      this.reset();
      for (const [labelled, count] of Object.entries(now())) this.inc({ [label]: labelled }, count);
    },
  });
};

/** 1 for the state that is, 0 for each other one. */
export const onlyOne = (states: readonly string[], state: string): [string, number][] =>
  states.map((one) => [one, one === state ? 1 : 0]);

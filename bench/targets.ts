import { median, ratios } from './statistics.js';
import { type Figure, type Results } from './results.js';

/** A figure that must be reached, and what came of it. */
export interface TargetRow {
  readonly figure: string;
  readonly atLeast: string;
  /** What was measured, in words; why not, where it was not. */
  readonly measured: string;
  readonly verdict: 'reached' | 'missed' | 'not run';
}

interface Outcome {
  readonly measured: string;
  readonly reached: boolean;
}

interface Target {
  readonly figure: string;
  readonly atLeast: string;
  /** Undefined where something that it needs was not measured. */
  readonly of: (results: Results) => Outcome | undefined;
}

/**
 * The median of the ratios of each round: what both were disturbed by is in neither. Undefined where one of them is
 * missing, or did nothing.
 */
export const ratioOf = (one: Figure | undefined, other: Figure | undefined): number | undefined => {
  if (!one || !other) return undefined;
  const ratio = median(ratios(one.values, other.values));
  return Number.isFinite(ratio) ? ratio : undefined;
};

const shown = (value: number): string => value.toFixed(value < 10 ? 2 : 0);

/** Requests of one contender for each request of another, in the same workload. */
const against =
  (workload: string, contender: string, other: string, least: number) =>
  (results: Results): Outcome | undefined => {
    const ratio = ratioOf(results.find(workload, contender), results.find(workload, other));
    if (ratio === undefined) return undefined;
    return { measured: `${shown(ratio)} ×`, reached: ratio >= least };
  };

/** Latency (p50) of one contender for that of another, in the same workload. */
const waitAgainst =
  (workload: string, contender: string, other: string, most: number) =>
  (results: Results): Outcome | undefined => {
    const [one, two] = [contender, other].map((name) => results.find(workload, name)?.p50);
    if (!one || !two) return undefined;
    const ratio = median(ratios(one, two));
    return { measured: `${shown(ratio)} ×`, reached: ratio <= most };
  };

/** Processor time of the embedded service for one request, in microseconds. */
const processorTime =
  (workload: string, most: number) =>
  (results: Results): Outcome | undefined => {
    const figure = results.find(workload, 'embedded')?.processor;
    if (!figure) return undefined;
    const micros = median(figure);
    return { measured: `${shown(micros)} µs`, reached: micros <= most };
  };

/** The peer as it is documented; beside that with its secret as a key, which spares it half of each request. */
const againstTypeorm =
  (workload: string, least: number) =>
  (results: Results): Outcome | undefined => {
    const documented = against(workload, 'embedded', 'typeorm', least)(results);
    const quicker = against(workload, 'embedded', 'typeorm-key', least)(results);
    if (!documented || !quicker) return documented;
    return {
      ...documented,
      measured: `${documented.measured} (${quicker.measured} with its secret as a key)`,
    };
  };

/** A rebuild that may be fast enough by itself, or as good as a share of the bare loop. */
const rebuild =
  (workload: string, contender: string, bare: string, perSecond: number) =>
  (results: Results): Outcome | undefined => {
    const figure = results.find(workload, contender);
    const ratio = ratioOf(figure, results.find(workload, bare));
    if (!figure || ratio === undefined) return undefined;
    const rate = median(figure.values);
    return {
      measured: `${Math.round(rate).toLocaleString('en')} events/s, ${shown(100 * ratio)} % of the bare loop`,
      reached: ratio >= 0.6 || rate >= perSecond,
    };
  };

/** Memory may swing with collections: more than this from the middle to the end of a rebuild is growth. */
const FLAT = 1.15;

const MUST_REACH: readonly Target[] = [
  {
    figure: 'list of 20, embedded, against bare node:http with the same bytes',
    atLeast: '0.75 ×',
    of: against('list-20', 'embedded', 'bare', 0.75),
  },
  {
    figure: 'list of 100 from Redis, against the same',
    atLeast: '0.50 ×',
    of: against('list-100', 'servers', 'bare', 0.5),
  },
  {
    figure: 'list of 20, against Fastify and one SQLite table without events (CRUD)',
    atLeast: '3.5 ×',
    of: against('list-20', 'embedded', 'crud', 3.5),
  },
  {
    figure: 'durable creates at 256 connections, against CRUD',
    atLeast: '3 ×',
    of: against('create-256', 'embedded', 'crud', 3),
  },
  {
    figure: 'lists of 20 of many owners by Zipf, against CRUD',
    atLeast: '1.6 ×',
    of: against('owners-zipf', 'embedded', 'crud', 1.6),
  },
  {
    figure: 'lists of 20 of many owners, each as often, against CRUD',
    atLeast: '1.6 ×',
    of: against('owners-uniform', 'embedded', 'crud', 1.6),
  },
  {
    figure: 'durable creates of many owners at 128 connections, against CRUD',
    atLeast: '2 ×',
    of: against('owners-create', 'embedded', 'crud', 2),
  },
  {
    figure: 'processor time of a list with a new token',
    atLeast: '170 µs at most',
    of: processorTime('owners-in-turn', 170),
  },
  {
    figure: 'wait for a create of one client alone (p50), against CRUD',
    atLeast: '1.8 × at most',
    of: waitAgainst('create-1', 'embedded', 'crud', 1.8),
  },
  {
    figure: 'processor time of a create of one client alone',
    atLeast: '300 µs at most',
    of: processorTime('create-1', 300),
  },
  {
    figure: 'processor time of a create at 256 connections',
    atLeast: '85 µs at most',
    of: processorTime('create-256', 85),
  },
  {
    figure: 'list of 20, against NestJS + Express + TypeORM + PostgreSQL',
    atLeast: '20 ×',
    of: againstTypeorm('list-20', 20),
  },
  {
    figure: 'durable creates at 256 connections, against the same peer',
    atLeast: '8 ×',
    of: againstTypeorm('create-256', 8),
  },
  {
    figure: 'durable creates at 256 connections, against TypeORM with its secret as a key',
    atLeast: '8 ×',
    of: against('create-256', 'embedded', 'typeorm-key', 8),
  },
  {
    figure: 'durable creates at 256 connections, against this service with the append stubbed out',
    atLeast: '0.70 ×',
    of: against('create-256', 'embedded', 'stubbed', 0.7),
  },
  {
    figure: 'the same on a log server and Redis, against TypeORM with its secret as a key',
    atLeast: '1.6 ×',
    of: against('create-256', 'servers', 'typeorm-key', 1.6),
  },
  {
    figure: 'lists of 20 by two workers, against one',
    atLeast: '1.5 ×, at 1.1 × the processor time of a list at most',
    of: (results) => {
      const [two, one] = [2, 1].map((count) => results.find('workers-lists', `embedded, WORKERS=${count}`));
      const ratio = ratioOf(two, one);
      if (ratio === undefined || !two?.processor || !one?.processor) return undefined;
      const cost = median(ratios(two.processor, one.processor));
      return {
        measured: `${shown(ratio)} ×, at ${shown(cost)} × the processor time`,
        reached: ratio >= 1.5 && cost <= 1.1,
      };
    },
  },
  {
    figure: 'list of 20, against Emmett + PostgreSQL',
    atLeast: '12 ×',
    of: against('list-20', 'embedded', 'emmett', 12),
  },
  {
    figure: 'durable creates at 256 connections, against Emmett + PostgreSQL',
    atLeast: '15 ×',
    of: against('create-256', 'embedded', 'emmett', 15),
  },
  {
    figure: 'cost of a list of 20 with all plants of the large log, against 1,000 plants',
    atLeast: '1.2 × at most',
    of: (results) => {
      const small = results.find('owner-size', '1,000 plants');
      const ratio = ratioOf(small, results.find('owner-size', 'all plants'));
      return ratio === undefined ? undefined : { measured: `${shown(ratio)} ×`, reached: ratio <= 1.2 };
    },
  },
  {
    figure: 'rebuild of the large log, SQLite → SQLite',
    atLeast: '150,000 events/s, or 60 % of a bare loop',
    of: rebuild('rebuild', 'embedded', 'bare loop', 150_000),
  },
  {
    figure: 'rebuild of the large log → Redis',
    atLeast: '60 % of a bare pipeline',
    of: rebuild('rebuild-redis', 'to Redis', 'bare pipeline', Infinity),
  },
  {
    figure: 'memory during a rebuild of the large log',
    atLeast: '200 MB of the process at most, flat',
    of: (results) => {
      const greatest = results.find('memory in a rebuild', 'embedded');
      const growth = results.find('memory in a rebuild, growth', 'embedded');
      if (!greatest || !growth) return undefined;
      const megabytes = (Math.max(...greatest.values) * 2 ** 20) / 1e6;
      const grown = median(growth.values);
      return {
        measured: `${shown(megabytes)} MB at most, ${shown(grown)} × from the middle to the end`,
        reached: megabytes <= 200 && grown <= FLAT,
      };
    },
  },
  {
    figure: 'start to first answer, embedded, large log and a current read model',
    atLeast: '1.5 s at most',
    of: (results) => {
      const start = results.find('start', 'large log');
      if (!start) return undefined;
      const seconds = median(start.values);
      return { measured: `${shown(seconds)} s`, reached: seconds <= 1.5 };
    },
  },
];

/** What came of each figure that must be reached. */
export const targetRows = (results: Results): TargetRow[] =>
  MUST_REACH.map(({ figure, atLeast, of }) => {
    const outcome = of(results);
    if (!outcome) return { figure, atLeast, measured: '', verdict: 'not run' };
    return { figure, atLeast, measured: outcome.measured, verdict: outcome.reached ? 'reached' : 'missed' };
  });

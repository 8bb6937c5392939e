/** What all workers hear when one of them says so: events were appended, lists were changed, the log is to be re-read. */
export type Topic = 'log' | 'lists' | 'recheck';

/** Figures of one metric, as prom-client's registry gives them. */
export interface Figure {
  readonly name: string;
  readonly help: string;
  readonly type: unknown;
  readonly aggregator?: string;
  readonly values: readonly {
    readonly value: number;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly metricName?: string;
  }[];
}

/** Where a worker listens, and whether its start made the local signing key. */
export interface Listening {
  readonly url: string;
  readonly metricsUrl: string | undefined;
  readonly firstStart: boolean;
}

/** What a worker asks the primary process. */
export type Question =
  | { readonly kind: 'scrape' }
  | { readonly kind: 'count'; readonly name: string; readonly amount: number; readonly seconds: number };

/** The answers, by the kind of question. */
export interface Answers {
  readonly scrape: string;
  readonly count: { readonly total: number; readonly msLeft: number };
}

/** From a worker to the primary process. */
export type FromWorker =
  | { readonly kind: 'listening'; readonly listening: Listening }
  | { readonly kind: 'hint'; readonly topic: Topic }
  | { readonly kind: 'question'; readonly number: number; readonly question: Question }
  /** `scrape`: which request it answers; undefined for the last figures of a worker that ends. */
  | { readonly kind: 'figures'; readonly scrape: number | undefined; readonly figures: readonly Figure[] };

/** From the primary process to a worker. */
export type ToWorker =
  /** `replaced`: another worker has taken its place, so that the port stays ready. */
  | { readonly kind: 'stop'; readonly replaced: boolean }
  | { readonly kind: 'hint'; readonly topic: Topic }
  | { readonly kind: 'answer'; readonly number: number; readonly answer: Answers[keyof Answers] | undefined }
  | { readonly kind: 'scrape'; readonly scrape: number };

/** Which worker a process is. */
export interface WorkerIdentity {
  /** From 1; the first one has all roles, the others answer requests only. */
  readonly number: number;
  readonly of: number;
  /** The id of the primary process. */
  readonly primary: number;
  /** How often a worker of this number has ended unexpectedly and was started again. */
  readonly restarts: number;
}

/** The environment variable that tells a process which worker it is, as JSON. */
export const WORKER_VARIABLE = 'PLANTS_WORKER';

import { Counter, type Registry } from 'prom-client';
import { type RequestOutcome } from '../http/request-log.js';
import { BoundHistogram, type Labels, type Observe } from './histogram.js';

/**
 * In seconds. A list takes a millisecond or few; a write waits for the lists, WRITE_WAIT_MS at most, which is 2 s
 * unless set otherwise: one limit just above it separates waits that ended there from requests that hang.
 */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.25, 5, 15];

/** Node parses more than 30 methods: for requests without a route, any other one is counted as `other`. */
const USUAL_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);

/** Requests of one method, route and status. */
interface Series {
  readonly labels: Labels;
  readonly observe: Observe;
  requests: number;
}

/**
 * Adds figures about requests, and gives what is to be called with each one that was answered. A path is known by
 * its route's pattern alone: a path would name a plant, and clients could make any number of series.
 */
export const countRequests = (registry: Registry): ((answered: RequestOutcome) => void) => {
  const registers = [registry];
  const all = new Map<string, Series>();
  new Counter({
    name: 'plants_http_requests_total',
    help: 'Requests that were answered.',
    labelNames: ['method', 'route', 'status'],
    registers,
    collect() {
      this.reset();
      for (const { labels, requests } of all.values()) this.inc(labels, requests);
    },
  });
  const durations = new BoundHistogram(
    registry,
    'plants_http_request_duration_seconds',
    'From the header fields of a request to the end of its answer.',
    DURATIONS,
  );
  const problems = new Counter({
    name: 'plants_http_problems_total',
    help: 'Answers that were problem documents, by their code.',
    labelNames: ['method', 'route', 'code'],
    registers,
  });
  const begin = (method: string, route: string, status: number): Series => ({
    labels: { method, route, status: `${status}` },
    observe: durations.bind({ method, route }),
    requests: 0,
  });
  return ({ method: given, route = 'none', status, seconds, problem }) => {
    const method = route !== 'none' || USUAL_METHODS.has(given) ? given : 'other';
    const key = `${method} ${status} ${route}`;
    let series = all.get(key);
    if (!series) all.set(key, (series = begin(method, route, status)));
    series.requests += 1;
    series.observe(seconds);
    if (problem !== undefined) problems.inc({ method, route, code: problem });
  };
};

import { Counter, Histogram, type Registry } from 'prom-client';
import { type RequestOutcome } from '../../http/request-log.js';

/**
 * In seconds. A list takes a millisecond or few; a write waits for the lists, WRITE_WAIT_MS at most, which is 2 s
 * unless set otherwise: one limit just above it separates waits that ended there from requests that hang.
 */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.25, 5, 15];

/** Node parses more than 30 methods: for requests without a route, any other one is counted as `other`. */
const USUAL_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);

/**
 * Adds figures about requests, and gives what is to be called with each one that was answered. A path is known by
 * its route's pattern alone: a path would name a plant, and clients could make any number of series.
 */
export const countRequests = (registry: Registry): ((answered: RequestOutcome) => void) => {
  const registers = [registry];
  const requests = new Counter({
    name: 'plants_http_requests_total',
    help: 'Requests that were answered.',
    labelNames: ['method', 'route', 'status'],
    registers,
  });
  const durations = new Histogram({
    name: 'plants_http_request_duration_seconds',
    help: 'From the header fields of a request to the end of its answer.',
    labelNames: ['method', 'route'],
    buckets: DURATIONS,
    registers,
  });
  const problems = new Counter({
    name: 'plants_http_problems_total',
    help: 'Answers that were problem documents, by their code.',
    labelNames: ['method', 'route', 'code'],
    registers,
  });
  return ({ method: given, route = 'none', status, seconds, problem }) => {
    const method = route !== 'none' || USUAL_METHODS.has(given) ? given : 'other';
    requests.inc({ method, route, status });
    durations.observe({ method, route }, seconds);
    if (problem !== undefined) problems.inc({ method, route, code: problem });
  };
};

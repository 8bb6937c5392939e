import { Counter, Histogram, type Registry } from 'prom-client';
import { type Answered } from '../http/answered.js';

/**
 * In seconds. A list takes a millisecond or few; a write waits for the lists, WRITE_WAIT_MS at most, which is 2 s
 * unless set otherwise: one limit just above it, so that those who gave up waiting are told from those who got stuck.
 */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.25, 5, 15];

/** The method of a request that no route knows may be any of Node's thirty-odd: one series for each would be waste. */
const USUAL_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);

/**
 * Adds figures about requests, and gives what is to be called with each one that was answered. A path is known by
 * its route's pattern alone: a path would name a plant, and there would be as many series as strangers can think of.
 */
export const countRequests = (registry: Registry): ((answered: Answered) => void) => {
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

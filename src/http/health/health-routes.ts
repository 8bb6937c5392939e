import { type Route, type Routes } from '../route.js';
import { json, TEXT } from '../route-parts.js';

const answers = { 200: { description: 'Yes.', content: json({ type: 'object' }) } };

/** For supervisors that restart processes, and balancers that send them requests. */
export const healthRoutes = {
  live: {
    method: 'GET',
    path: '/health/live',
    scope: 'no token',
    summary: 'Does the process run, without needing a restart?',
    description: 'For a liveness probe: 503 where only a restart helps.',
    types: 'any',
    answers,
    problems: ['restart_needed'],
  },
  ready: {
    method: 'GET',
    path: '/health/ready',
    scope: 'no token',
    summary: 'Does every part work?',
    description: 'For a readiness probe and for proxies: `parts` of a 503 says what does not work.',
    types: 'any',
    answers,
    problems: ['not_ready'],
  },
} satisfies Routes;

/** The figures of a process: no part of the API. */
export const metricsRoute = {
  method: 'GET',
  path: '/metrics',
  scope: 'no token',
  summary: 'Get the figures of this process',
  description: 'For Prometheus. They name no owner and no plant, and need no token.',
  types: 'any',
  answers: { 200: { description: 'The figures.', content: { 'text/plain': TEXT } } },
} satisfies Route;

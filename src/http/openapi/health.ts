import { json, NO_TOKEN, type Operation, type PathItem, problems, PUBLIC } from './parts.js';

/** What a health check may answer as well: it is never counted by a rate limit. */
const HEALTH = PUBLIC.filter((code) => code !== 'rate_limited');

const healthCheck = (operationId: 'live' | 'ready', summary: string, description: string): Operation => ({
  tags: ['health'],
  security: NO_TOKEN,
  operationId,
  summary,
  description,
  responses: {
    200: { description: 'Yes.', content: json({ type: 'object' }) },
    ...problems(...HEALTH, 'invalid_request', operationId === 'ready' ? 'not_ready' : 'restart_needed'),
  },
});

/** For whoever restarts processes, and sends them requests. */
export const healthPaths: Readonly<Record<string, PathItem>> = {
  '/health/live': {
    get: healthCheck(
      'live',
      'Does the process run, without needing a restart?',
      'For a liveness probe: 503 where only a restart helps.',
    ),
  },
  '/health/ready': {
    get: healthCheck(
      'ready',
      'Does every part work?',
      'For a readiness probe and for proxies: `parts` of a 503 says what does not work.',
    ),
  },
};

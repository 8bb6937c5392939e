import { expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { type RequestOutcome } from '../../../../src/http/request-log.js';
import { countRequests } from '../../../../src/service/metrics/http.js';
import { samplesIn } from '../../../support/samples.js';

const answered: RequestOutcome = {
  method: 'GET',
  route: '/plants',
  status: 200,
  seconds: 0.004,
  problem: undefined,
};

it('counts requests by route, method and status, and problems by their code', async () => {
  const registry = new Registry();
  const count = countRequests(registry);
  count(answered);
  count(answered);
  count({ ...answered, status: 503, problem: 'not_fresh_yet' });
  const samples = samplesIn(await registry.metrics());
  expect(samples.get('plants_http_requests_total{method="GET",route="/plants",status="200"}')).toBe(2);
  expect(samples.get('plants_http_problems_total{method="GET",route="/plants",code="not_fresh_yet"}')).toBe(
    1,
  );
  const durations = 'plants_http_request_duration_seconds';
  expect(samples.get(`${durations}_sum{method="GET",route="/plants"}`)).toBeCloseTo(0.012);
  expect(samples.get(`${durations}_bucket{le="0.0025",method="GET",route="/plants"}`)).toBe(0);
  expect(samples.get(`${durations}_bucket{le="0.005",method="GET",route="/plants"}`)).toBe(3);
});

it('makes a few series only of what strangers think of', async () => {
  const registry = new Registry();
  const count = countRequests(registry);
  for (const method of ['GET', 'PROPFIND', 'MKCOL', 'UNLOCK'])
    count({ ...answered, method, route: undefined, status: 404, problem: 'route_not_found' });
  const requests = [...samplesIn(await registry.metrics())].filter(([name]) =>
    name.includes('requests_total'),
  );
  expect(requests).toEqual([
    ['plants_http_requests_total{method="GET",route="none",status="404"}', 1],
    ['plants_http_requests_total{method="other",route="none",status="404"}', 3],
  ]);
});

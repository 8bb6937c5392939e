import { expect, it } from '@jest/globals';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type HttpClient, ofThisTest } from '../../support/http-client.js';
import { samplesIn } from '../../support/samples.js';
import { TestService } from '../../support/service.js';

let http: HttpClient;

const start = async (settings: Readonly<Record<string, string>>): Promise<void> => {
  http = ofThisTest(await TestService.start(settings));
};
const metricsUrl = (): URL => {
  const url = http.service.logged.find((line) => typeof line.metricsUrl === 'string')?.metricsUrl;
  return new URL(String(url));
};
const statusOf = async (path: string, base: string | URL, method = 'GET'): Promise<number> => {
  const answer = await fetch(new URL(path, base), { method });
  await answer.arrayBuffer();
  return answer.status;
};
/** Sends bytes on a new connection, and gives all that comes back until it is closed. */
const exchange = (bytes: string): Promise<string> => {
  const socket = connect(Number(metricsUrl().port), '127.0.0.1');
  socket.write(bytes);
  return text(socket);
};

it('METRICS_LISTEN puts the metrics and health on an address of their own, under the same limits', async () => {
  await start({ METRICS_LISTEN: '127.0.0.1:0' });
  await http.service.ready();
  const slow = exchange('GET /metrics HTTP/1.1\r\nHost: here\r\n');
  const [api, own] = [http.service.url, metricsUrl()];
  expect(own.port).not.toBe(String(http.service.port));

  const answer = await fetch(new URL('/metrics', own));
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    200,
    'text/plain; version=0.0.4; charset=utf-8',
  ]);
  expect(samplesIn(await answer.text()).get('plants_ready{part="event_log"}')).toBe(1);
  for (const path of ['/health/live', '/health/ready'])
    expect([await statusOf(path, api), await statusOf(path, own)]).toEqual([200, 200]);
  for (const method of ['GET', 'HEAD', 'DELETE']) expect(await statusOf('/metrics', api, method)).toBe(404);
  for (const path of ['/plants', '/docs', '/openapi.json', '/operations/status', '/'])
    expect(await statusOf(path, own)).toBe(404);
  expect(await statusOf('/metrics', own, 'DELETE')).toBe(405);

  expect(await exchange(`GET /metrics HTTP/1.1\r\nHost: here\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`)).toMatch(
    /^HTTP\/1.1 431 .*"code":"headers_too_large"/s,
  );
  expect(await slow).toMatch(/^HTTP\/1.1 408 .*"code":"request_timeout"/s);
});

it('it goes on while the process drains, says that it is not ready, and is closed in the end', async () => {
  await start({ METRICS_LISTEN: '127.0.0.1:0', DRAIN_MS: '2000' });
  await http.service.ready();
  const own = metricsUrl();
  const open = connect(Number(own.port), '127.0.0.1');
  await once(open, 'connect');
  http.service.signal('SIGTERM');
  while ((await statusOf('/health/ready', own)) !== 503);
  expect(await statusOf('/metrics', own)).toBe(200);
  expect(await http.service.ended()).toBe(0);
  await expect(statusOf('/metrics', own)).rejects.toThrow();
  open.destroy();
});

it('METRICS_LISTEN=off and DOCS=off leave out the metrics, and the document with its page', async () => {
  await start({ METRICS_LISTEN: 'off', DOCS: 'off' });
  for (const path of ['/metrics', '/docs', '/docs/swagger-ui-bundle.js', '/openapi.json'])
    expect(await statusOf(path, http.service.url)).toBe(404);
  await http.service.ready();
  await http.service.stop();
  expect(http.service.stderr).toContain('plants token');
  expect(http.service.stderr).not.toContain('/docs');
});

import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { showCertificates } from '../../../../src/service/metrics/certificates.js';
import { TEST_CERTIFICATE, TEST_KEY } from '../../../support/eventstore/certificate.js';
import { samplesIn } from '../../../support/samples.js';
import { until } from '../../../support/waiting.js';

const SAMPLE = 'plants_certificate_expiry_timestamp_seconds{store="event_log"}';

it("shows when a server's certificate expires, and nothing once no server shows one", async () => {
  const server = createServer({ cert: TEST_CERTIFICATE, key: TEST_KEY });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const registry = new Registry();
  const stores = [{ store: 'event_log' as const, servers: [{ host: '127.0.0.1', port }] }];
  showCertificates(registry, stores, { askEveryMs: 0 });
  const shown = async () => samplesIn(await registry.metrics()).get(SAMPLE);
  expect(await shown()).toBeUndefined();
  const expiry = Date.parse(new X509Certificate(TEST_CERTIFICATE).validTo) / 1_000;
  await until(async () => (await shown()) === expiry);
  server.close();
  await until(async () => (await shown()) === undefined);
});

it('asks again only when what it knows is old', async () => {
  let asked = 0;
  const server = createServer({ cert: TEST_CERTIFICATE, key: TEST_KEY });
  server.on('connection', () => (asked += 1));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let time = 0;
  const registry = new Registry();
  const stores = [{ store: 'event_log' as const, servers: [{ host: '127.0.0.1', port }] }];
  showCertificates(registry, stores, { monotonic: () => time });
  const shown = async () => samplesIn(await registry.metrics()).get(SAMPLE);
  await until(async () => (await shown()) !== undefined);
  expect(asked).toBe(1);
  time = 600_000;
  await until(async () => (await shown()) !== undefined && asked === 2);
  server.close();
});

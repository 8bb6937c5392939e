import { describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { served } from '../../support/http-client.js';

/** The log of requests, behind a proxy at 127.0.0.1 that is trusted. */
describe('the line of a request', () => {
  const http = served({ TRUSTED_PROXIES: '127.0.0.1' });

  it('names the client that the trusted proxy names, on both ways to a list', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9, 198.51.100.7' };
    for (const requestId of ['list-1', 'list-2', 'list-3'])
      await http.list('', { headers: { ...headers, 'x-request-id': requestId } });
    for (const requestId of ['list-1', 'list-2', 'list-3'])
      expect(await http.logged({ msg: 'request', requestId })).toMatchObject({
        client: '198.51.100.7',
        status: 200,
      });
  });

  it('names the process that wrote it', async () => {
    await http.list('', { headers: { 'x-request-id': 'source-1' } });
    expect(await http.logged({ msg: 'request', requestId: 'source-1' })).toMatchObject({
      pid: expect.any(Number) as unknown,
      host: hostname(),
      role: 'api,projector,auditor',
      version: expect.stringMatching(/^\d+\.\d+\.\d+/) as unknown,
    });
  });

  it.each([
    ['a stranger', false],
    ['an owner', true],
  ])('is one of level info, without a stack, where %s breaks off', async (who, known) => {
    const authorization = known ? `Authorization: Bearer ${await http.token()}\r\n` : '';
    for (const [nth, end] of (['destroy', 'resetAndDestroy'] as const).entries())
      for (const [kind, body] of [
        ['length', 'Content-Length: 100\r\n\r\n{'],
        ['chunks', 'Transfer-Encoding: chunked\r\n\r\n5\r\n{'],
      ]) {
        const requestId = `${who.slice(-4)}-${nth}-${kind}`;
        const socket = connect(http.service.port, '127.0.0.1');
        await once(socket, 'connect');
        socket.write(
          `POST /plants HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${requestId}\r\n${authorization}Content-Type: application/json\r\n${body}`,
        );
        // The service has begun with it once it has answered another one.
        await http.list();
        socket[end]();
        const line = await http.logged({ requestId });
        expect(line).toMatchObject({
          level: 'info',
          msg: 'request aborted',
          method: 'POST',
          path: '/plants',
        });
        expect(http.service.logged.filter((one) => one.requestId === requestId)).toHaveLength(1);
      }
    expect(http.service.logged.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('is left out where strangers are refused more than a hundred times a minute, and nobody else loses one', async () => {
    const before = http.service.logged.length;
    for (let sent = 0; sent < 300; sent += 1) await http.send({ path: '/plants' });
    await http.list('', { headers: { 'x-request-id': 'after-the-flood' } });
    await http.delete(405, { headers: { 'x-request-id': 'refused-after-the-flood' } });
    await http.logged({ msg: 'request', requestId: 'after-the-flood' });
    await http.logged({ msg: 'request', requestId: 'refused-after-the-flood' });
    const refused = http.service.logged.slice(before).filter(({ code }) => code === 'token_missing');
    expect(refused.length).toBeLessThanOrEqual(100);
    expect(refused.length).toBeGreaterThan(0);
  });

  it('has the code of a problem, and none without one', async () => {
    await http.delete(404, { headers: { 'x-request-id': 'refused-1' } });
    await http.list('', { headers: { 'x-request-id': 'answered-1' } });
    expect(await http.logged({ msg: 'request', requestId: 'refused-1' })).toMatchObject({
      status: 404,
      code: 'plant_not_found',
      client: '127.0.0.1',
    });
    expect(await http.logged({ msg: 'request', requestId: 'answered-1' })).not.toHaveProperty('code');
  });
});

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { HttpClient } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

/** The log of requests, behind a proxy at 127.0.0.1 that is trusted. */
describe('the line of a request', () => {
  let http: HttpClient;
  beforeAll(async () => {
    http = new HttpClient(await TestService.start({ TRUSTED_PROXIES: '127.0.0.1' }));
    await http.service.ready();
  });
  afterAll(() => http.finish());

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

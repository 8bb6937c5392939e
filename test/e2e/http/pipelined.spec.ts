import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { HttpClient } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

let http: HttpClient;
beforeAll(async () => {
  http = new HttpClient(await TestService.start());
  await http.service.ready();
});
afterAll(async () => {
  await http.finish();
});

it('requests of one connection take place in the order in which they were sent', async () => {
  const fields = ['Host: here', `Authorization: Bearer ${await http.token()}`];
  const plant = '{"id":1,"name":"Monstera","tag":""}';
  const create = [
    'POST /plants HTTP/1.1',
    ...fields,
    'Content-Type: application/json',
    `Content-Length: ${plant.length}`,
    '',
    plant,
  ].join('\r\n');
  const other = (target: string, ...more: string[]): string =>
    [`${target} HTTP/1.1`, ...fields, ...more, '', ''].join('\r\n');
  const answers = await http.exchange(
    [
      ...[create, other('DELETE /plants/1'), create, other('GET /plants')],
      ...[other('DELETE /plants/1'), other('GET /plants', 'Connection: close')],
    ].join(''),
  );
  expect(answers.map(({ status, text }) => [status, text])).toEqual([
    [201, '{"name":"Monstera","tag":""}'],
    [204, ''],
    [201, '{"name":"Monstera","tag":""}'],
    [200, '[{"name":"Monstera","tag":""}]'],
    [204, ''],
    [200, '[]'],
  ]);
});

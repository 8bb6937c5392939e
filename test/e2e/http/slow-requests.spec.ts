import { expect, it } from '@jest/globals';
import { type Answer, problemIn, served } from '../../support/http-client.js';

const http = served();

/** Sends a beginning, and then goes on little by little, never to finish. */
const trickled = async (beginning: string, more: string): Promise<Answer[]> => {
  const connection = http.connect();
  connection.write(beginning);
  const timer = setInterval(() => {
    connection.write(more);
  }, 200);
  const answers = await connection.closed;
  clearInterval(timer);
  return answers;
};

it('a request that does not get on is answered 408, and others meanwhile as ever', async () => {
  const head = `POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer ${await http.token()}\r\nContent-Type: application/json\r\n`;
  const length = 'Content-Length: 30\r\n\r\n';
  const silent = ['', 'P', head, `${head}${length}`, `${head}${length}{"name":`];
  let waiting = true;
  const slow = Promise.all([
    ...silent.map((bytes) => http.exchange(bytes)),
    trickled(`${head}X-Slow: `, 'x'),
    trickled(`${head}Content-Length: 1000\r\n\r\n{`, ' '),
    trickled(`${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`, '1\r\n \r\n'),
  ]).finally(() => (waiting = false));
  expect((await http.list()).status).toBe(200);
  expect(waiting).toBe(true);
  for (const answers of await slow) {
    expect(answers).toHaveLength(1);
    answers.forEach((answer) => problemIn(answer, 408, 'request_timeout'));
  }
  expect(await http.service.eventCount()).toBe(0);
});

it('a request whose body comes in two parts behind another one is read to its end', async () => {
  const fields = ['Host: here', `Authorization: Bearer ${await http.token('bob')}`];
  const plant = '{"id":2,"name":"Calathea","tag":""}';
  const post = ['Content-Type: application/json', 'Connection: close', `Content-Length: ${plant.length}`];
  const connection = http.connect();
  connection.write(
    [
      ...['GET /plants HTTP/1.1', ...fields, ''],
      ...['POST /plants HTTP/1.1', ...fields, ...post, '', plant.slice(0, 10)],
    ].join('\r\n'),
  );
  await connection.answered(1);
  connection.write(plant.slice(10));
  expect((await connection.closed).map(({ status }) => status)).toEqual([200, 201]);
});

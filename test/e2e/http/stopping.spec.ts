import { beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer, type HttpClient, problemIn, ofThisTest } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { until } from '../../support/waiting.js';

/** A write stays in flight as long as it may wait for the lists. */
const held = async (waitMs: number): Promise<HttpClient> =>
  ofThisTest(await TestService.startBlocked({ WRITE_WAIT_MS: String(waitMs) }));

let http: HttpClient;
beforeEach(async () => {
  http = await held(1_000);
});

describe('a service that is told to stop', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    'answers the write that is under way, and ends well: %s',
    async (signal) => {
      const { answering } = await writeUnderWay();
      const stopped = http.service.stop(signal);
      expect((await answering).status).toBe(201);
      expect(await stopped).toBe(0);
      await http.logged({ msg: 'stopped' });
    },
  );

  it('takes no new connections, but finishes what has begun to arrive, and says that it is not ready', async () => {
    const [ready, write] = [http.connect(), http.connect()];
    const plant = '{"name":"n","tag":"t","id":100}';
    ready.write('GET /health/ready HTTP/1.1\r\nHost: x\r\n');
    write.write(
      `POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await http.token()}\r\nContent-Type: application/json\r\nContent-Length: ${plant.length}\r\n\r\n{`,
    );
    await http.send({ path: '/health/live' }); // what was sent before has arrived
    http.service.signal('SIGTERM');
    await http.logged({ msg: 'stopping' });
    const refusal = (): Promise<string> => http.send({ path: '/health/live' }).then(() => 'none', String);
    // One that was on its way may still be answered, or cut; after that the port is closed.
    while (!(await refusal()).includes('ECONNREFUSED'));
    ready.write('\r\n');
    write.write(plant.slice(1));
    const [notReady, written] = await Promise.all([ready.closed, write.closed]);
    expect(problemIn(only(notReady), 503, 'not_ready').parts).toMatchObject({ process: { status: 'down' } });
    expect([only(written).status, only(written).headers.connection]).toEqual([201, 'close']);
    expect(await http.service.ended()).toBe(0);
  });

  it('waits for no client that is idle, silent or slow', async () => {
    const head = 'POST /plants HTTP/1.1\r\nHost: x\r\n';
    const connections = [
      '',
      'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n',
      head,
      `${head}Content-Length: 30\r\n\r\n{`,
    ].map((bytes) => {
      const connection = http.connect();
      connection.write(bytes);
      return connection;
    });
    const [, idle] = connections;
    expect((await idle?.answered(1))?.map(({ status }) => status)).toEqual([200]);
    const started = performance.now();
    expect(await http.service.stop()).toBe(0);
    expect(performance.now() - started).toBeLessThan(8_000);
    const [, , ...unfinished] = await Promise.all(connections.map(({ closed }) => closed));
    for (const answers of unfinished) problemIn(only(answers), 408, 'request_timeout');
  });
});

it('a service that is told twice ends at once', async () => {
  const patient = await held(60_000);
  const { answering } = await writeUnderWay(patient);
  const cut = expect(answering).rejects.toThrow();
  patient.service.signal('SIGTERM');
  await patient.logged({ msg: 'stopping' });
  patient.service.signal('SIGTERM');
  expect(await patient.service.ended()).toBe(1);
  await cut;
});

/** A write that the log holds already and that is not answered yet. */
const writeUnderWay = async (client = http): Promise<{ answering: Promise<Answer> }> => {
  const before = await client.service.eventCount();
  const answering = client.create({ name: 'n', tag: '', id: 1 });
  await until(async () => (await client.service.eventCount()) > before);
  return { answering };
};

const only = (answers: readonly Answer[]): Answer => {
  const [answer, ...more] = answers;
  if (!answer || more.length > 0) throw new Error(`one answer was expected, not ${JSON.stringify(answers)}`);
  return answer;
};

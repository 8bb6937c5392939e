/** Every operation of the API by the functions that oazapfts made: `node … URL TOKEN`. */
import * as api from './oazapfts-api.js';

const [, , baseUrl = '', token = ''] = process.argv;
api.defaults.baseUrl = baseUrl;
api.defaults.headers = { authorization: `Bearer ${token}` };

/** Prints what was answered, and gives it; `expected` are the statuses that may come. */
const report = async <Answer extends { status: number; data?: unknown }>(
  operation: string,
  answering: Promise<Answer>,
  expected = [200],
): Promise<Answer> => {
  const answer = await answering;
  process.stdout.write(`${JSON.stringify({ operation, status: answer.status })}\n`);
  if (!expected.includes(answer.status))
    throw new Error(`${operation}: ${answer.status} ${JSON.stringify(answer.data)}`);
  return answer;
};

/** The beginning of an answer that has no end. */
const begun: typeof fetch = async (input, init) => {
  const answer = await fetch(input, init);
  const reader = answer.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  return new Response(value, answer);
};

/** An answer of lines, which the functions would parse as one value. */
const unparsed: typeof fetch = async (input, init) => {
  const { status, body } = await fetch(input, init);
  return new Response(body, { status, headers: { 'content-type': 'text/plain' } });
};

const created = await report(
  'createPlant',
  api.createPlant({ name: 'Zamioculcas', tag: '', id: -7 }, { idempotencyKey: 'another-key' }),
  [201],
);
if (created.status === 201 && created.data.name !== 'Zamioculcas') throw new Error('another plant');
const lines = { accept: 'application/x-ndjson', 'content-type': 'application/x-ndjson' };
const imported = await report(
  'importPlants',
  api.importPlants('{"name":"Zamioculcas","tag":"","id":-7}\n', { headers: lines, fetch: unparsed }),
);
if (!String(imported.data).includes('"exists":1')) throw new Error(String(imported.data));
await report('listPlants', api.listPlants({ limit: 2 }));
await report('readPlant', api.readPlant(-7, {}));
const history = await report('readPlantHistory', api.readPlantHistory(-7, {}));
const [event] = history.status === 200 ? (history.data as api.CloudEvent[]) : [];
await report('readEvents', api.readEvents({ owner: 'anne' }));
await report('readReceipt', api.readReceipt(event?.position ?? ''));
const list = await report('proveList', api.proveList({ limit: 3 }));
if (list.status === 200 && list.data.format !== 'plants-list') throw new Error('no list proof');
await report('readAlarm', api.readAlarm());
await report('readCheckpoint', api.readCheckpoint());
await report('readState', api.readState());
await report('readTile', api.readTile(0, '000.p/1', {}));
await report('readEntries', api.readEntries('000.p/1', {}));
await report('proveInclusion', api.proveInclusion({ index: 0 }));
await report('proveConsistency', api.proveConsistency(1, {}));
await report('deletePlant', api.deletePlant(-7, {}), [204]);
// One of the other client may be under way.
const rebuild = await report('requestRebuild', api.requestRebuild({}, {}), [202, 409]);
await report(
  'cancelRebuild',
  api.cancelRebuild(
    rebuild.status === 202 ? rebuild.data.rebuild : '0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11',
    {},
  ),
  [204, 404, 409],
);
await report('requestRollback', api.requestRollback({}, {}), [202, 409]);
await report('skipEvent', api.skipEvent({ position: '1', reason: 'test' }, {}), [409]);
await report(
  'orderErasure',
  api.orderErasure({ owner: 'somebody whom nobody knows', reason: 'test' }, {}),
  [409],
);
await report('eraseEverything', api.eraseEverything('everything'), [409]);
await report('readErasure', api.readErasure('0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11'), [404]);
await report('readUnread', api.readUnread('1'), [409]);
await report('countOwned', api.countOwned({ owner: 'somebody' }, {}), [409]);
const sse = { fetch: unparsed, headers: { accept: 'text/event-stream' } };
const compared = await report('verifyLists', api.verifyLists({}, sse));
if (!String(compared.data).includes('event: outcome')) throw new Error('no outcome');
await report('estimateRebuild', api.estimateRebuild({}, {}, sse));
const lifted = await report('liftAlarm', api.liftAlarm({ reason: 'test' }, {}));
if (lifted.status === 200 && lifted.data.lifted !== null) throw new Error('an alarm stood');
await report(
  'downloadBackup',
  api.downloadBackup({ fetch: unparsed, headers: { accept: 'application/vnd.sqlite3' } }),
);
const operations = await report('listOperations', api.listOperations({ limit: 3 }));
if (operations.status === 200 && operations.data[0]?.at === undefined) throw new Error('no operation');
await report(
  'followPlants',
  api.followPlants({}, { fetch: begun, headers: { accept: 'text/event-stream' } }),
);
await report('followStatus', api.followStatus({ fetch: begun, headers: { accept: 'text/event-stream' } }));
await report('readStatus', api.readStatus());
await report('live', api.live());
await report('ready', api.ready());

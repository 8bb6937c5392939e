/** Every operation of the API by openapi-fetch, with the types that openapi-typescript made: `node … URL TOKEN`. */
import createClient from 'openapi-fetch';
import type { paths } from './api.js';

const [, , baseUrl = '', token = ''] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } });

/** Prints what was answered, and gives the data of an answer that must be a success. */
const report = <Data>(
  operation: string,
  answer: { data?: Data; error?: unknown; response: Response },
): Data => {
  process.stdout.write(`${JSON.stringify({ operation, status: answer.response.status })}\n`);
  if (answer.error !== undefined || !answer.response.ok)
    throw new Error(`${operation}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  return answer.data as Data;
};

const plant: { name: string; tag: string } = report(
  'createPlant',
  await client.POST('/plants', {
    body: { name: '観音竹', tag: 'bamboo', id: 142 },
    params: { header: { 'Idempotency-Key': 'a-key', Prefer: 'receipt' } },
  }),
);
if (plant.name !== '観音竹') throw new Error(plant.name);

const imported = await client.POST('/plants/import', {
  body: '{"name":"観音竹","tag":"bamboo","id":142}\n',
  bodySerializer: (body: string) => body,
  headers: { 'content-type': 'application/x-ndjson' },
  parseAs: 'text',
});
if (!report('importPlants', imported).includes('"exists":1')) throw new Error('another plant');

const listed = await client.GET('/plants', { params: { query: { limit: 10, view: 'full' } } });
const [first] = report('listPlants', listed);
if (!first || !('id' in first) || first.id !== 142) throw new Error(JSON.stringify(first));
const position = listed.response.headers.get('plants-position') ?? '';

const path = { id: 142 };
report('readPlant', await client.GET('/plants/{id}', { params: { path } }));
const [event] =
  report('readPlantHistory', await client.GET('/plants/{id}/history', { params: { path } })) ?? [];
if (typeof event !== 'object') throw new Error('no event');
report('readEvents', await client.GET('/audit/events', { params: { query: { owner: 'anne', limit: 5 } } }));
report('readReceipt', await client.GET('/log/receipt', { params: { query: { position: event.position } } }));
report('proveList', await client.GET('/log/list', { params: { query: { limit: 3 } } }));
report('readAlarm', await client.GET('/log/alarm'));
report('readCheckpoint', await client.GET('/log/checkpoint', { parseAs: 'text' }));
report('readState', await client.GET('/log/state', { parseAs: 'text' }));
const tile = { path: '000.p/1' };
const hashes = await client.GET('/log/tile/{level}/{path}', {
  params: { path: { ...tile, level: 0 } },
  parseAs: 'arrayBuffer',
});
const { byteLength } = report('readTile', hashes);
if (byteLength !== 32) throw new Error(`${byteLength} bytes of a hash`);
report(
  'readEntries',
  await client.GET('/log/tile/entries/{path}', { params: { path: tile }, parseAs: 'blob' }),
);
report(
  'proveInclusion',
  await client.GET('/log/proof/inclusion', { params: { query: { position: event.position } } }),
);
report('proveConsistency', await client.GET('/log/proof/consistency', { params: { query: { from: 1 } } }));
report('deletePlant', await client.DELETE('/plants/{id}', { params: { path } }));

const rebuild = report('requestRebuild', await client.POST('/operations/rebuilds', { body: {} }));
const cancelled = await client.DELETE('/operations/rebuilds/{id}', {
  params: { path: { id: rebuild.rebuild } },
});
// It may have been done already.
if (![204, 404, 409].includes(cancelled.response.status)) report('cancelRebuild', cancelled);
process.stdout.write(
  `${JSON.stringify({ operation: 'cancelRebuild', status: cancelled.response.status })}\n`,
);
const back = await client.POST('/operations/rollback', { body: {} });
if (![202, 409].includes(back.response.status)) report('requestRollback', back);
process.stdout.write(`${JSON.stringify({ operation: 'requestRollback', status: back.response.status })}\n`);
const skip = await client.POST('/operations/skips', { body: { position: '1', reason: 'test' } });
if (skip.response.status !== 409) report('skipEvent', skip);
process.stdout.write(`${JSON.stringify({ operation: 'skipEvent', status: skip.response.status })}\n`);
const order = await client.POST('/operations/erasures', {
  body: { owner: 'somebody whom nobody knows', reason: 'test' },
});
if (order.response.status !== 409) report('orderErasure', order);
process.stdout.write(`${JSON.stringify({ operation: 'orderErasure', status: order.response.status })}\n`);
const own = await client.DELETE('/plants', { params: { header: { 'Confirm-Erasure': 'everything' } } });
if (own.response.status !== 409) report('eraseEverything', own);
process.stdout.write(`${JSON.stringify({ operation: 'eraseEverything', status: own.response.status })}\n`);
const erasure = await client.GET('/operations/erasures/{id}', { params: { path: { id: rebuild.rebuild } } });
if (erasure.response.status !== 404) report('readErasure', erasure);
process.stdout.write(`${JSON.stringify({ operation: 'readErasure', status: erasure.response.status })}\n`);
const unread = await client.GET('/operations/skips/{position}', { params: { path: { position: '1' } } });
if (unread.response.status !== 409) report('readUnread', unread);
process.stdout.write(`${JSON.stringify({ operation: 'readUnread', status: unread.response.status })}\n`);
const count = await client.POST('/operations/erasures/counts', { body: { owner: 'somebody' } });
if (count.response.status !== 409) report('countOwned', count);
process.stdout.write(`${JSON.stringify({ operation: 'countOwned', status: count.response.status })}\n`);
const sse = { parseAs: 'text', headers: { accept: 'text/event-stream' } } as const;
const compared = report('verifyLists', await client.POST('/operations/verifications', sse));
if (!compared?.includes('event: outcome')) throw new Error(`no outcome: ${compared}`);
report('estimateRebuild', await client.POST('/operations/estimates', { body: {}, ...sse }));
const { lifted } = report('liftAlarm', await client.POST('/operations/lifts', { body: { reason: 'test' } }));
if (lifted !== null) throw new Error('an alarm stood');
report('downloadBackup', await client.GET('/operations/backup', { parseAs: 'blob' }));
const operations = await client.GET('/operations', { params: { query: { limit: 3 } } });
if (report('listOperations', operations)[0]?.at === undefined) throw new Error('no operation');
const changes = report('followPlants', await client.GET('/plants/events', { parseAs: 'stream' }));
await changes?.cancel();
const live = report('followStatus', await client.GET('/operations/events', { parseAs: 'stream' }));
await live?.cancel();
const status = report('readStatus', await client.GET('/operations/status'));
if (status.processes.length === 0) throw new Error('no processes');
report('live', await client.GET('/health/live'));
report('ready', await client.GET('/health/ready'));
if (position === '') throw new Error('no position');

import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { plantStream } from '../../src/domain/stream.js';
import { type Position } from '../../src/log/event-log.js';
import { partitionOf } from '../../src/lists/read-model.js';
import { appendRaw } from '../support/domain-stores.js';
import { runCli } from '../support/http-cli.js';
import { type Answer, HttpClient, problemIn, served } from '../support/http-client.js';
import { STORES } from '../support/stores-of-this-run.js';
import { until, untilSeen } from '../support/waiting.js';

/** Two owners of one partition, with names that are unique on a shared server. */
const ANNE = `anne ${randomUUID()}`;
const NEIGHBOUR = (() => {
  for (;;) {
    const name = `neighbour ${randomUUID()}`;
    if (partitionOf(name) === partitionOf(ANNE)) return name;
  }
})();

// One story: each test goes on where the one before has ended.
describe('an event that cannot be read', () => {
  const http = served();
  let annes: string;
  let neighbours: string;
  let position: Position;

  beforeAll(async () => {
    annes = await http.token(ANNE);
    neighbours = await http.token(NEIGHBOUR);
    for (const token of [annes, neighbours]) expect((await create(token, 1)).status).toBe(201);
    ({ position } = await http.service.writing((log) =>
      appendRaw(log, plantStream(ANNE, 9), 'PlantWatered', { id: 9 }),
    ));
    await http.logged({ stream: plantStream(ANNE, 9), level: 'error' });
  });

  const create = (token: string, id: number, client = http): Promise<Answer> =>
    client.create({ name: `plant ${id}`, tag: '', id }, { token });
  const names = ({ status, text }: Answer): string[] => {
    expect(status).toBe(200);
    return (JSON.parse(text) as { name: string }[]).map(({ name }) => name);
  };
  const plants = (...args: string[]) => runCli(args, http.service.env);

  /** Her list, once it is answered: the line of the log may tell of the generation that a rebuild has replaced. */
  const caughtUp = (): Promise<Answer> =>
    untilSeen(
      () => http.list('', { token: annes }),
      ({ status }) => status === 200,
    );

  /** The list of the one is not answered, that of the other is. */
  const asStated = async (ids: readonly number[], client = http): Promise<void> => {
    const { detail } = problemIn(await client.list('', { token: annes }), 503, 'owner_blocked');
    expect(detail).not.toMatch(/plant-|PlantWatered|\d{5}/);
    expect(names(await client.list('', { token: neighbours }))).toEqual(ids.map((id) => `plant ${id}`));
  };

  it('stops the list of its owner, in every form, and no other one', async () => {
    await asStated([1]);
    for (const query of ['?limit=1', '?after=MTox', `?asOf=${position}`]) {
      const answer = await http.list(query, { token: annes });
      expect([query, answer.status]).toEqual([query, 503]);
      expect(problemIn(answer, 503, 'owner_blocked')).toBeDefined();
      expect(answer.headers['retry-after']).toBe('30');
    }
    expect((await http.send({ path: '/health/ready' })).status).toBe(200);
    expect((await http.send({ path: '/metrics' })).text).toMatch(/^plants_parked_owners 1$/m);
  });

  it('lets its owner write, but for the plant that it is of', async () => {
    for (const token of [annes, neighbours]) expect((await create(token, 2)).status).toBe(201);
    expect((await http.delete(1, { token: annes })).status).toBe(204);
    problemIn(await http.delete(9, { token: annes }), 503, 'owner_blocked');
    problemIn(await create(annes, 9), 503, 'owner_blocked');
    await asStated([1, 2]);
  });

  it('is told by another process, after a restart, and of lists that are built again', async () => {
    if (STORES === 'servers') {
      const beside = await http.service.startBeside({ PORT: '0' });
      await beside.ready();
      await asStated([1, 2], new HttpClient(beside));
      await beside.kill();
    }
    await http.service.kill();
    await http.service.start();
    await http.service.ready();
    await asStated([1, 2]);
    expect((await plants('rebuild')).status).toBe(0);
    await asStated([1, 2]);
    let status = await plants('status');
    while (status.stdout.includes(' does not answer: ')) status = await plants('status'); // in its second
    expect(status.status).toBe(1);
    expect(status.stdout).toMatch(/^PROBLEM {2}the lists of 1 owner are not answered/m);
    expect(status.stdout).toContain(`at ${position}: event 0 of ${plantStream(ANNE, 9)}: unknown type`);
    const verified = await plants('verify', '--json');
    expect(verified.status).toBe(0);
    expect(JSON.parse(verified.stdout)).toMatchObject({ differing: 0, parked: 1, unreadable: 0 });
  });

  it('is skipped, and the list is all that was written meanwhile', async () => {
    const skipped = await plants('skip', '--position', position, '--reason', 'a test', '--yes');
    expect(skipped.status).toBe(0);
    await http.logged({ msg: "an owner's lists are answered again" });
    expect(names(await caughtUp())).toEqual(['plant 2']);
    expect((await create(annes, 9)).status).toBe(201);
    expect(names(await http.list('', { token: annes }))).toEqual(['plant 2', 'plant 9']);
    expect((await http.send({ path: '/metrics' })).text).toMatch(/^plants_parked_owners 0$/m);
    const verified = await plants('verify', '--json');
    expect(JSON.parse(verified.stdout)).toMatchObject({ differing: 0, parked: 0, unreadable: 0 });
  });

  it('says to upgrade, and is not skipped, where a newer version has written it', async () => {
    const [first] = await (await http.service.log()).readStream(plantStream(ANNE, 2));
    const metadata = { ...(first?.metadata as object), schemaVersion: 2 };
    const { position: newer } = await http.service.writing((log) =>
      log.append(plantStream(ANNE, 3), 'none', [
        { id: randomUUID(), type: 'PlantCreated', data: { id: 3 }, metadata: metadata as never },
      ]),
    );
    await http.logged({ stream: plantStream(ANNE, 3), level: 'error', kind: 'newer_version' });
    // Written behind the service's back: lists may be two seconds behind it.
    await until(async () => (await http.list('', { token: annes })).status === 503);
    const { detail } = problemIn(await http.list('', { token: annes }), 503, 'owner_blocked');
    expect(detail).toContain('upgraded');
    const skip = ['skip', '--position', newer, '--reason', 'a test', '--yes'];
    const refused = await plants(...skip);
    expect(refused.status).toBe(1);
    expect(refused.stderr).toMatch(/^plants: a newer version .* has written that event: upgrade/m);
    expect((await plants(...skip, '--force')).status).toBe(0);
    await http.logged({ msg: "an owner's lists are answered again", revision: 0, position: newer });
    expect(names(await caughtUp())).toEqual(['plant 2', 'plant 9']);
  });
});

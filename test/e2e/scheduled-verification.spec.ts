import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { type SystemStatus } from '../../src/operations/system-status.js';
import { damageLists } from '../support/damaged-lists.js';
import { runCli } from '../support/http-cli.js';
import { ofThisTest } from '../support/http-client.js';
import { samplesIn } from '../support/samples.js';
import { TestService } from '../support/service.js';
import { until } from '../support/waiting.js';

it('finds damaged rows by itself, rebuilds where VERIFY_REBUILD=on, and shows the result in status and metrics', async () => {
  const owner = `owner ${randomUUID()}`; // nobody else's on a shared server
  const http = ofThisTest(await TestService.start({ VERIFY_EVERY_SECONDS: '0' }));
  const token = await http.token(owner);
  for (const id of [7, 8, 9]) await http.create({ name: `plant ${id}`, tag: '', id }, { token });
  const { text: intact } = await http.list('', { token });
  await http.service.stop();
  damageLists(http.service, owner);
  await http.service.start({ VERIFY_EVERY_SECONDS: '1', VERIFY_REBUILD: 'on' });

  const damagedOrRefused: string[] = [];
  await until(async () => {
    const { status, text } = await http.list('', { token });
    if (status === 200 && text === intact) return true;
    damagedOrRefused.push(text);
    return false;
  });
  expect(damagedOrRefused).not.toEqual([]); // it was damaged when the service started

  const status = async (): Promise<SystemStatus> => {
    const { stdout } = await runCli(['status', '--json'], http.service.env);
    return JSON.parse(stdout) as SystemStatus;
  };
  await until(async () => {
    const { lastRebuild, problems, processes } = await status();
    // A process reports its verification a moment after it ends.
    return (
      lastRebuild?.outcome === 'promoted' && problems.length === 0 && processes[0]?.verified?.differing === 0
    );
  });
  const rebuilds = (await http.service.events()).filter(({ type }) => type === 'RebuildRequested');
  expect(rebuilds.map(({ metadata }) => metadata)).toMatchObject([{ actor: { sub: 'plants projector' } }]);
  const samples = samplesIn((await http.send({ path: '/metrics' })).text);
  expect(samples.get('plants_last_verify_differing_plants')).toBe(0);
  expect(samples.get('plants_last_verify_timestamp_seconds')).toBeGreaterThan(0);
  expect(http.service.logged.map(({ msg }) => msg)).toContainEqual(
    expect.stringMatching(/^the lists are not the fold of the log, differences: 3; a rebuild is begun$/),
  );
});

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as zlib from 'node:zlib';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { openSqliteTreeStore } from '../../src/audit/sqlite/tree-store.js';
import { CliProcess } from '../support/cli-process.js';
import { PlantsClient } from '../support/history-client.js';
import { runCli } from '../support/http-cli.js';
import { PYTHON } from '../support/python-check.js';
import { served } from '../support/http-client.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** True if script(1) is there, which gives a command a terminal. */
const TERMINALS = spawnSync('script', ['--version']).status === 0;

const PLANTS = 20;

describe('plants export beside a running service, and plants check without it', () => {
  const away = temporaryFolder();
  const nowhere = { DATA_DIR: join(away, 'nowhere') };
  const packed = join(away, 'events.ndjson.gz');
  const plain = join(away, 'events.ndjson');
  const { service } = served();
  let vkey: string;

  const plants = (...args: string[]) => runCli(args, service.env);

  /** The note of the checkpoint that a bundle is proven against. */
  const checkpointOf = (bundle: string): string =>
    (JSON.parse(bundle.slice(0, bundle.indexOf('\n'))) as { checkpoint: string }).checkpoint;

  beforeAll(async () => {
    const client = new PlantsClient(() => service.url, await service.token('alice'));
    for (let id = 1; id <= PLANTS; id++)
      expect(await client.create({ id, name: `Monstera ${id}`, tag: '' })).toMatchObject({ status: 201 });
    client.close();
    vkey = (await plants('audit-key')).stdout.trim();
    // The auditor signs soon after.
    let [size, stderr] = [0, ''];
    for (let tries = 0; size < PLANTS; tries++) {
      if (tries === 40) throw new Error(`no checkpoint of ${PLANTS} events was signed: ${size}, ${stderr}`);
      const exported = await plants('export', '--out', '-');
      stderr = exported.stderr;
      size = exported.stdout === '' ? 0 : Number(checkpointOf(exported.stdout).split('\n')[1]);
    }
  });
  afterEach(() => {
    CliProcess.killAll();
  });

  it('make a file that anybody can check who has the key', async () => {
    const made = await plants('export', '--out', packed, '--json');
    expect({ status: made.status, stderr: made.stderr }).toEqual({ status: 0, stderr: '' });
    expect(JSON.parse(made.stdout)).toMatchObject({ file: packed, from: 0, events: PLANTS, size: PLANTS });
    writeFileSync(plain, zlib.gunzipSync(readFileSync(packed)));
    writeFileSync(join(away, 'plants.vkey'), `${vkey}\n`);
    writeFileSync(join(away, 'checkpoint'), checkpointOf(readFileSync(plain, 'utf8')));
    for (const file of [packed, plain])
      for (const key of [vkey, join(away, 'plants.vkey')]) {
        const args = ['--key', key, '--against', join(away, 'checkpoint'), '--previous', plain, '--json'];
        const { status, stdout, stderr } = await runCli(['check', file, ...args], nowhere);
        expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
        expect(JSON.parse(stdout)).toMatchObject({
          verdict: 'proven',
          events: PLANTS,
          plants: { alice: PLANTS },
          against: PLANTS,
          previous: { events: PLANTS },
        });
      }
    if (PYTHON) {
      const args = ['docs/check.py', packed, '--key', vkey, '--against', join(away, 'checkpoint')];
      const { status, stdout } = spawnSync('python3', args, { encoding: 'utf8' });
      expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringMatching(/^proven: 20 events/) });
    }
  });

  it('speak plainly to a script', async () => {
    const file = join(away, 'piped.ndjson');
    const made = await plants('export', '--out', file, '--owner', 'alice', '--from', '5');
    expect(made.stdout).toMatch(
      new RegExp(
        `^exported 15 events in .* to ${file}: verified against the checkpoint of 20 events of .*\n$`,
      ),
    );
    const { status, stdout } = await runCli(['check', file, '--key', vkey], nowhere);
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: expect.stringMatching(
        /^proven: 15 events of "alice" from 5 on are in the checkpoint of 20 events of .*, signed by .*\nIt is not proven that no event/,
      ) as unknown,
    });
    const { stdout: unsigned } = await runCli(['check', file], nowhere);
    expect(unsigned).toMatch(/^consistent: .*\nThe signature was NOT checked: /);
    const altered = join(away, 'altered.ndjson');
    writeFileSync(altered, readFileSync(file, 'utf8').replace('Monstera 9', 'Monstera 8'));
    const refused = await runCli(['check', altered, '--key', vkey], nowhere);
    expect({ status: refused.status, stdout: refused.stdout }).toEqual({
      status: 1,
      stdout: 'refused: line 5, event 8: the event or its hash was altered\n',
    });
    const told = JSON.parse((await runCli(['check', altered, '--json'], nowhere)).stdout) as unknown;
    expect(told).toEqual({
      verdict: 'refused',
      reason: 'the event or its hash was altered',
      line: 5,
      index: 8,
    });
  });

  (TERMINALS ? it : it.skip)('speak to people on a terminal', async () => {
    const file = join(away, 'terminal.ndjson');
    for (const [args, says] of [
      [['export', '--out', file], /exported 20 events/],
      [
        ['check', file, '--key', vkey],
        /proven: events 0 to 19 are in .*\r\nThe state root of its checkpoint is that of these events\.\r\n.*held 20 plants of 1 owner:\r\n {2}alice +20/,
      ],
    ] as const) {
      const running = CliProcess.onTerminal(args, service.env);
      expect({ status: await running.ended(), text: running.stdout }).toEqual({
        status: 0,
        text: expect.stringMatching(says) as unknown,
      });
      expect(running.stdout).toMatch(/\x1b\[.*\d\/s/);
    }
  });

  it('say what they cannot do, and leave nothing behind', async () => {
    const before = readdirSync(away);
    const untold = { ...service.env, ...nowhere, EVENT_LOG: `sqlite:${join(service.dataDir, 'events.db')}` };
    for (const [args, settings, status, says] of [
      [['export', '--out', plain], service.env, 1, `${plain} exists, and nothing is overwritten`],
      [
        ['export', '--out', join(away, 'x'), '--from', '1000'],
        service.env,
        1,
        '--from 1000: the last signed',
      ],
      [
        ['export', '--out', join(away, 'x'), '--from', 'soon'],
        service.env,
        2,
        '--from: this log has not reached',
      ],
      ...('createZstdCompress' in zlib
        ? []
        : [[['export', '--out', join(away, 'x.zst')], service.env, 1, 'has no zstd, 22.15 has'] as const]),
      [['export', '--out', join(away, 'x')], untold, 1, 'run a service with the role auditor first'],
      [['check', join(away, 'none')], nowhere, 2, `there is no file ${join(away, 'none')}`],
      [['check', away], nowhere, 1, `${away} cannot be read (read EISDIR)`],
      [['check', plain, '--against', away], nowhere, 1, `${away} cannot be read (read EISDIR)`],
      [
        ['check', plain, '--key', 'name+00000000+AAAA'],
        nowhere,
        2,
        'the verifier key of "name" is not an Ed25519 key',
      ],
    ] as const) {
      const { stdout, stderr, ...run } = await runCli(args, settings);
      expect({ status: run.status, stdout, stderr }).toEqual({
        status,
        stdout: '',
        stderr: expect.stringContaining(says) as unknown,
      });
    }
    expect(readdirSync(away)).toEqual(before);
    expect(existsSync(nowhere.DATA_DIR)).toBe(false);
  });

  it('say it when an alarm stands', async () => {
    const identity = vkey.split('+')[0]?.replace('plants/', '') ?? '';
    const tree = await openSqliteTreeStore(join(service.dataDir, 'tree.db'), identity);
    await tree.raise({ kind: 'changed', index: 7, message: 'event at index 7 …', raisedAt: '' });
    const { status, stdout, stderr } = await plants('export', '--out', join(away, 'alarm'), '--json');
    await tree.lift('anne', 'it was raised by a test');
    await tree.close();
    expect({ status, alarm: (JSON.parse(stdout) as { alarm: unknown }).alarm }).toEqual({
      status: 0,
      alarm: 'event at index 7 …',
    });
    expect(stderr).toBe(
      'plants: an alarm of the auditor stands, and what is exported is what it signed before: event at index 7 …\n',
    );
  });
});

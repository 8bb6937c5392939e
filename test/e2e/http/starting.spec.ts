import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { CLI, runCli } from '../../support/http-cli.js';
import { HttpClient } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

describe('the first start', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await TestService.start();
  });
  afterAll(() => service.remove());

  it('tells how to get a token and add a plant, and the next one does not', async () => {
    const { url, dataDir } = service;
    await until(() => service.stderr.includes(`${url}/docs`)); // the last line; the address came on the other stream
    expect(service.stderr).toContain(`listens on ${url}`);
    expect(service.stderr).toContain(`TOKEN=$(DATA_DIR='${dataDir}' npx plants token --owner alice)`);
    expect(service.stderr).toContain(`curl -i ${url}/plants -H "Authorization: Bearer $TOKEN"`);
    const said = service.stderr;
    await service.stop();
    await service.start();
    expect(service.stderr).toBe(said);
  });

  it('tells commands that work as they stand', async () => {
    const [, owner = ''] = /plants token --owner (\w+)\)/.exec(service.stderr) ?? [];
    const [, plant = ''] = /-d '([^']+)'/.exec(service.stderr) ?? [];
    const { stdout, status } = await runCli(['token', '--owner', owner], { DATA_DIR: service.dataDir });
    expect(status).toBe(0);
    const http = new HttpClient(service);
    const token = http.keepSecret(stdout.trim());
    const answer = await http.create(plant, { token });
    expect([answer.status, answer.text]).toEqual([201, '{"name":"Monstera deliciosa","tag":"aroid"}']);
    http.expectNoSecrets();
  });

  it('never logs more than it has to: no key, no settings', () => {
    expect(JSON.stringify(service.logged)).not.toMatch(/"d":|signing-key|PRIVATE/);
  });

  it('a second service on the same port ends with one line', async () => {
    const second = await serve({ PORT: String(service.port) });
    expect(second.stdout).not.toContain('EADDRINUSE');
    expect([second.status, failureIn(second.stderr)]).toEqual([
      1,
      `port ${service.port} of 127.0.0.1 is in use: stop what listens there, or set PORT to another one`,
    ]);
    const metrics = await serve({ METRICS_LISTEN: `127.0.0.1:${service.port}` });
    expect([metrics.status, failureIn(metrics.stderr)]).toEqual([
      1,
      `port ${service.port} of 127.0.0.1 is in use: stop what listens there, or set METRICS_LISTEN to another one`,
    ]);
  });
});

/** Why a start failed, as its only line says: JSON as in the log, where standard output is no terminal. */
const failureIn = (stderr: string): string => {
  expect(stderr).toMatch(/^[^\n]+\n$/);
  const { msg, ...line } = JSON.parse(stderr) as Record<string, unknown>;
  expect(line).toEqual({
    level: 'fatal',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    pid: expect.any(Number),
    host: hostname(),
    version: expect.any(String),
  });
  return String(msg);
};

/** Starts a service that cannot, on a folder of its own, and gives what it said before it ended. */
const serve = async (
  settings: Readonly<Record<string, string>>,
  prepare: (dataDir: string) => void = () => undefined,
) => {
  const dataDir = temporaryFolder();
  prepare(dataDir);
  const ended = await runCli(['serve'], { DATA_DIR: dataDir, ...settings });
  return { ...ended, stderr: ended.stderr.replaceAll(dataDir, 'DIR') };
};

it('a setting that cannot be used ends the process with one line that names it', async () => {
  const bad: Readonly<Record<string, string>>[] = [
    { PORT: '70000' },
    { EVENT_LOG: 'mysql://user:hunter2@db/events' },
    { READ_MODEL: 'redis://user:hunter2@cache/zero' },
    { AUTH_JWKS_URL: 'https://user:hunter2@issuer.example/jwks' },
  ];
  const ended = await Promise.all(bad.map((settings) => serve(settings)));
  for (const [index, { status, stdout, stderr }] of ended.entries()) {
    expect(failureIn(stderr)).toMatch(Object.keys(bad[index] ?? {}).join());
    expect(stderr).not.toMatch(/hunter2| at /);
    expect([status, stdout]).toEqual([2, '']);
  }
});

it('every file that cannot be used ends the process with one line that names it', async () => {
  const bad: [
    status: number,
    stderr: RegExp,
    settings: Record<string, string>,
    prepare?: (dir: string) => void,
  ][] = [
    [
      1,
      /signing-key\.json is damaged/,
      {},
      (dir) => {
        writeFileSync(join(dir, 'signing-key.json'), '{}', { mode: 0o600 });
      },
    ],
    [
      1,
      /others can read the signing key/,
      {},
      (dir) => {
        writeFileSync(join(dir, 'signing-key.json'), '{}');
        chmodSync(join(dir, 'signing-key.json'), 0o644);
      },
    ],
    [
      1,
      /events\.db/,
      {},
      (dir) => {
        writeFileSync(join(dir, 'events.db'), 'this is no database'.repeat(100));
      },
    ],
    ...['signing-key.json', 'audit-key.pem'].map((name): (typeof bad)[number] => [
      1,
      new RegExp(`${name} is not a file`),
      {},
      (dir) => {
        execFileSync('mkfifo', ['-m', '600', join(dir, name)]); // opening one to read waits for a writer
      },
    ]),
    [1, /^HOST 192\.0\.2\.1 is no address of this machine/, { HOST: '192.0.2.1' }],
    [1, /^HOST fe80::1 is no address of this machine/, { HOST: 'fe80::1' }],
  ];
  const ended = await Promise.all(
    bad.map(([, , settings, prepare]) => serve({ PORT: '0', ...settings }, prepare)),
  );
  for (const [index, { status, stderr }] of ended.entries()) {
    expect([status, failureIn(stderr)]).toEqual([
      bad[index]?.[0],
      expect.stringMatching(bad[index]?.[1] ?? /nothing/),
    ]);
  }
});

it('too few open files end the process with one line that says how many it needs', () => {
  // With 60 not even the command line can be loaded, which bin/plants.js says; but Node 26 loads it.
  for (const [limit, program] of [
    [500, CLI],
    [200, CLI],
    [60, 'bin/plants.js'],
  ] as const) {
    const command = `ulimit -n ${limit} && exec "$0" --no-warnings "$1" serve`;
    const { status, stderr } = spawnSync('sh', ['-c', command, process.execPath, program], {
      env: { PATH: process.env.PATH, PORT: '0' },
      encoding: 'utf8',
    });
    const said = stderr.startsWith('plants: ') ? stderr.replace(/^plants: |\n$/g, '') : failureIn(stderr);
    expect(said).toMatch(/^this process may have .*files open.*$/);
    expect(said).toMatch(/(?=.*512)(?=.*ulimit -n)/);
    expect(status).toBe(1);
  }
});

import { connect } from 'node:net';
import { createHash } from 'node:crypto';
import { rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { cosignaturesOf } from '../../src/transparency/cosignature.js';
import { formatVerifierKey } from '../../src/transparency/note.js';
import { CliProcess } from '../support/cli-process.js';
import { runCli } from '../support/http-cli.js';
import { LogOfLeaves } from '../support/log-of-leaves.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { startWitness, type WitnessProcess } from '../support/witness-process.js';

const log = new LogOfLeaves();
const NAME = 'witness.example/w1';

describe('plants witness', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder();
    writeFileSync(join(folder, 'log.vkey'), `${formatVerifierKey(log.key)}\n`);
  });
  afterEach(() => CliProcess.stopAll());

  const options = (): string[] => [
    ...['--name', NAME],
    ...['--log', join(folder, 'log.vkey'), '--data', join(folder, 'witness')],
  ];

  const start = () => startWitness(options());

  const end = ({ process }: WitnessProcess, signal: NodeJS.Signals): Promise<number | null> => {
    process.signal(signal);
    return process.ended();
  };

  const send = async ({ url }: Pick<WitnessProcess, 'url'>, body: string) => {
    const response = await fetch(`${url}/add-checkpoint`, { method: 'POST', body });
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      body: await response.text(),
    };
  };

  it('cosigns checkpoints, and keeps key and memory for its owner alone', async () => {
    const running = await start();
    const { status, body } = await send(running, log.request(0, 100));
    expect(status).toBe(200);
    expect(cosignaturesOf(log.note(100) + body, [running.key])).toHaveLength(1);
    expect(await send(running, log.request(0, 100))).toEqual({
      status: 409,
      type: 'text/x.tlog.size',
      body: '100\n',
    });
    const originHash = createHash('sha256').update(log.key.name).digest('hex');
    const kept = await fetch(`${running.url}/${originHash}/checkpoint`);
    expect(cosignaturesOf(await kept.text(), [running.key])).toHaveLength(1);
    const both = cosignaturesOf(log.note(100) + body, [running.key, running.mlDsa44]);
    expect(both.map(({ key }) => key)).toEqual([running.key, running.mlDsa44]);
    for (const file of ['witness-key.pem', 'witness-key-ml-dsa-44.pem', 'witness.db'])
      expect(statSync(join(folder, 'witness', file)).mode & 0o777).toBe(0o600);
  });

  it('forgets nothing that it has answered by kill -9', async () => {
    let last = 0;
    for (const next of [50, 60, 200]) {
      const running = await start();
      expect((await send(running, log.request(last, next))).status).toBe(200);
      await end(running, 'SIGKILL');
      last = next;
    }
    const running = await start();
    expect(await send(running, log.request(0, 50))).toMatchObject({ status: 409, body: '200\n' });
  });

  it('ends at SIGTERM with status 0, although a client has sent half of a request', async () => {
    const running = await start();
    const { port } = new URL(running.url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('POST /add-checkpoint HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nold');
    expect((await send(running, log.request(0, 7))).status).toBe(200);
    expect(await end(running, 'SIGTERM')).toBe(0);
    socket.destroy();
  });

  it('refuses to start with a key that has lost its memory', async () => {
    await end(await start(), 'SIGTERM');
    rmSync(join(folder, 'witness', 'witness.db'));
    const { status, stderr } = await runCli(['witness', ...options()], {});
    expect(status).toBe(1);
    expect(stderr).toMatch(/^plants: there is no .*witness\.db next to the key: .*\n$/);
  });

  it.each([
    ['no log', ['--name', NAME], /follows at least one log/],
    ['a key that is none', ['--name', NAME, '--log', 'x'], /not a verifier key/],
    ['a name that notes cannot hold', ['--name', 'a b', '--log', formatVerifierKey(log.key)], /no spaces/],
    [
      'a port that is none',
      ['--name', NAME, '--log', formatVerifierKey(log.key), '--port', '70000'],
      /a port/,
    ],
  ])('refuses %s with status 2', async (_what, args, reason) => {
    const { status, stderr } = await runCli(['witness', '--data', join(folder, 'other'), ...args], {});
    expect(status).toBe(2);
    expect(stderr).toMatch(reason);
  });

  it('says in one line that it cannot listen', async () => {
    const { port } = new URL((await start()).url);
    const { status, stderr } = await runCli(['witness', ...options(), '--port', port], {});
    expect(status).toBe(1);
    expect(stderr).toBe(`plants: the witness cannot listen on 127.0.0.1 port ${port}: EADDRINUSE\n`);
  });

  describe('against hostile clients', () => {
    const raw = async ({ url }: WitnessProcess, request: string): Promise<string> => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write(request);
      return text(socket).catch(() => 'reset');
    };

    it.each([
      ['a body that says it is too long', 'Content-Length: 200000\r\n\r\n', 413],
      [
        'a body that is too long',
        `Transfer-Encoding: chunked\r\n\r\n${`8000\r\n${'x'.repeat(0x8000)}\r\n`.repeat(5)}`,
        413,
      ],
    ])('answers %s with %s', async (_what, rest, status) => {
      const running = await start();
      const answer = await raw(running, `POST /add-checkpoint HTTP/1.1\r\nHost: here\r\n${rest}`);
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect((await send(running, log.request(0, 5))).status).toBe(200);
    });

    it('answers 404 and 405 to what it does not have', async () => {
      const { url } = await start();
      expect((await fetch(`${url}/other`)).status).toBe(404);
      const read = await fetch(`${url}/add-checkpoint`);
      expect([read.status, read.headers.get('allow')]).toEqual([405, 'POST']);
      expect((await fetch(`${url}/${'a'.repeat(64)}/checkpoint`)).status).toBe(404);
      expect((await fetch(`${url}/${'a'.repeat(64)}/checkpoint`, { method: 'POST' })).status).toBe(405);
    });

    it('cuts off a client that does not send its request', async () => {
      const running = await start();
      const answer = await raw(running, 'POST /add-checkpoint HTTP/1.1\r\nHost: here\r\n');
      expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    });
  });
});

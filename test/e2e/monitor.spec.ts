import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { openKnown } from '../../src/transparency/checkpoint.js';
import { GrowingTree, type Hash, leafHash } from '../../src/transparency/merkle.js';
import { consistencyProof, rootOf } from '../../src/transparency/prove-tree.js';
import { formatVerifierKey, parseVerifierKey } from '../../src/transparency/note.js';
import { signerKey } from '../../src/audit/key.js';
import { newSigner } from '../support/audited-log.js';
import { CliProcess } from '../support/cli-process.js';
import { runCli } from '../support/http-cli.js';
import { served } from '../support/http-client.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/waiting.js';
import { signCheckpoint, cosign } from '../../src/transparency/sign.js';

const key = newSigner();
const vkey = formatVerifierKey(key);
const witnessKey = signerKey('w.example/1', generateKeyPairSync('ed25519').privateKey, 'cosignature');
const witnessVkey = formatVerifierKey(witnessKey, 'cosignature');

/** The tree of a history: its leaves are this text and their numbers. */
const treeOf = (history: string, size: number) => {
  const nodes = new Map<string, Hash>();
  const tree = new GrowingTree();
  for (let leaf = 0; leaf < size; leaf++)
    tree.append(leafHash(Buffer.from(`${history} ${leaf}`)), (level, index, hash) => {
      nodes.set(`${level}/${index}`, hash);
    });
  return (level: number, index: number): Hash => nodes.get(`${level}/${index}`) ?? Buffer.alloc(32);
};

const noteOf = (history: string, size: number, signer = key): string =>
  signCheckpoint({ origin: key.name, size, root: rootOf(size, treeOf(history, size)) }, signer);

const proofOf = (history: string, first: number, second: number) =>
  JSON.stringify({
    proof: consistencyProof(first, second, treeOf(history, second)).map((hash) =>
      Buffer.from(hash).toString('base64'),
    ),
  });

/** A log that answers what a test wants. */
class LyingLog {
  note = '';
  status = 200;
  proof: (from: number, to: number) => string = (from, to) => proofOf('a', from, to);

  private constructor(private readonly server: Server) {}

  static async start(): Promise<LyingLog> {
    const server = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://here');
      response.writeHead(log.status);
      const [from, to] = [Number(searchParams.get('from')), Number(searchParams.get('to'))];
      response.end(pathname === '/log/checkpoint' ? log.note : log.proof(from, to));
    });
    const log = new LyingLog(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return log;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

describe('plants monitor and a log that lies', () => {
  let log: LyingLog;
  let folder: string;
  let state: string;
  beforeAll(async () => {
    log = await LyingLog.start();
  });
  beforeEach(() => {
    folder = temporaryFolder();
    state = join(folder, 'state');
    log.status = 200;
    log.proof = (from, to) => proofOf('a', from, to);
  });
  afterAll(() => {
    log.close();
  });

  const look = async (note: string, ...more: string[]) => {
    log.note = note;
    return runCli(['monitor', log.url, '--key', vkey, '--state', state, '--once', '--json', ...more], {});
  };
  const answered = async (note: string, ...more: string[]) => {
    const { status, stdout, stderr } = await look(note, ...more);
    if (stdout === '') throw new Error(stderr);
    return { status, ...(JSON.parse(stdout) as { reason?: string; evidence?: string[] }) };
  };

  it('takes what goes on from the last checkpoint, over restarts', async () => {
    expect(await answered(noteOf('a', 5))).toMatchObject({ status: 0, size: 5, before: null });
    expect(await answered(noteOf('a', 12))).toMatchObject({ status: 0, size: 12, before: 5 });
    expect(await answered(noteOf('a', 12))).toMatchObject({ status: 0, size: 12, before: 12 });
    expect(readFileSync(state, 'utf8')).toBe(noteOf('a', 12));
  });

  it('convicts a key that has signed two roots of one size, and keeps both notes', async () => {
    await answered(noteOf('a', 5));
    const { status, reason, evidence = [] } = await answered(noteOf('b', 5));
    expect({ status, reason }).toEqual({
      status: 1,
      reason: 'two histories: its key has signed two roots of size 5',
    });
    expect(evidence.map((file) => readFileSync(file, 'utf8'))).toEqual([noteOf('a', 5), noteOf('b', 5)]);
    const roots = evidence.map((file) => openKnown(readFileSync(file), [key]).checkpoint.root);
    expect(roots[0]).not.toEqual(roots[1]);
    expect(readFileSync(state, 'utf8')).toBe(noteOf('a', 5));
  });

  it.each<[string, number, string, RegExp]>([
    ['goes back', 4, '', /it went back from size 5 to 4/],
    ['goes on from another history', 9, proofOf('b', 5, 9), /does not come to the root of the first/],
    ['gives a proof of other sizes', 9, proofOf('a', 4, 9), /the proof is too|does not come to/],
    ['gives no proof', 9, '<html>', /its answer is no proof of consistency/],
    ['gives a proof of rubbish', 9, '{"proof":["a"]}', /its answer is no proof of consistency/],
  ])('refuses a log that %s', async (_, size, proof, reason) => {
    await answered(noteOf('a', 5));
    log.proof = () => proof;
    const refused = await answered(noteOf('a', size));
    expect(refused.reason).toMatch(reason);
    expect(refused.status).toBe(1);
    expect(refused.evidence?.every((file) => existsSync(file))).toBe(true);
    expect(readFileSync(state, 'utf8')).toBe(noteOf('a', 5));
  });

  it('refuses what another key has signed', async () => {
    const refused = await answered(noteOf('a', 5, newSigner()));
    expect(refused).toMatchObject({ status: 1, evidence: [] });
    expect(existsSync(state)).toBe(false);
  });

  it('wants cosignatures where witnesses are named, and verifies them', async () => {
    const note = noteOf('a', 5);
    const text = note.slice(0, note.indexOf('\n\n') + 1);
    const good = note + cosign(text, witnessKey, 1_700_000_000);
    expect(await answered(good, '--witness', witnessVkey)).toMatchObject({ status: 0, size: 5 });
    const forged = note + cosign(text.replace('\n5\n', '\n6\n'), witnessKey, 1_700_000_000);
    expect((await answered(forged, '--witness', witnessVkey)).reason).toMatch(
      /is not by that key, or not of/,
    );
    expect((await answered(note, '--witness', witnessVkey)).reason).toBe(
      'its checkpoint of size 5 is cosigned by 0 of the witnesses, and not by 1',
    );
  });

  it('takes a log that cannot be reached, or is not ready, for no evidence', async () => {
    await answered(noteOf('a', 5));
    log.status = 503;
    const { status, stdout, stderr } = await look('{"code":"log_altered"}');
    expect({ status, stdout }).toEqual({ status: 3, stdout: '' });
    expect(stderr).toMatch(/the log answers 503 to \/log\/checkpoint: .*log_altered/);
  });

  it('refuses wrong usage with one line', async () => {
    const usage = async (...args: string[]) => {
      const { status, stderr } = await runCli(['monitor', ...args, '--once', '--json'], {});
      expect(status).toBe(2);
      return stderr;
    };
    expect(await usage(log.url)).toMatch(/needs the log's key/);
    expect(await usage('ftp://a', '--key', vkey)).toMatch(/must be a URL/);
    expect(await usage('http://u:p@a', '--key', vkey)).toMatch(/no user, query or fragment/);
    expect(await usage(log.url, '--key', vkey, '--every', '100000')).toMatch(/at most 86400/);
    expect(await usage(log.url, '--key', vkey, '--witnesses-required', '1')).toMatch(
      /--witness names only 0/,
    );
    expect(await usage(log.url, '--key', vkey, '--token', 'mine.jwt')).toMatch(
      /^.*It was removed: .*plants check.*$/m,
    );
    expect(await usage(log.url, '--key', vkey, '--state', folder)).toMatch(/cannot be read: EISDIR/);
    writeFileSync(state, noteOf('a', 5, newSigner()));
    expect(await usage(log.url, '--key', vkey, '--state', state)).toMatch(
      /holds no checkpoint by these keys/,
    );
  });
});

describe('plants monitor and a service', () => {
  const http = served();
  afterAll(() => CliProcess.stopAll());

  it('follows it while it writes, over a time in which it is away', async () => {
    const { service } = http;
    const token = await http.token('anne');
    await http.create({ id: 1, name: 'a', tag: '' }, { token });
    const own = (await runCli(['audit-key'], service.env)).stdout.trim();
    const state = join(temporaryFolder(), 'state');
    const monitor = CliProcess.piped(
      ['monitor', service.url, '--key', own, '--state', state, '--every', '1'],
      {},
    );
    await monitor.says(/verified: size \d+ of plants\/.*, the first checkpoint that is kept\n/);
    await http.create({ id: 2, name: 'b', tag: '' }, { token });
    await monitor.says(/which go on from the \d+ before\n/);
    const { port } = service;
    await service.stop();
    await monitor.says(/the log: it cannot be reached \(ECONNREFUSED\); it is tried again\n/);
    await service.start({ PORT: String(port) });
    await service.ready();
    await http.create({ id: 3, name: 'c', tag: '' }, { token });
    await until(() => openKnown(readFileSync(state), [parseVerifierKey(own)]).checkpoint.size > 2);
    monitor.signal('SIGTERM');
    expect(await monitor.ended()).toBe(143);
  });
});

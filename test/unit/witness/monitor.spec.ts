import { beforeEach, describe, expect, it } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { signerKey } from '../../../src/audit/key.js';
import { keyName, parseNote } from '../../../src/transparency/note.js';
import { LogRefused, LogUnreachable, Monitor, type MonitorOptions } from '../../../src/witness/monitor.js';
import { LogOfLeaves } from '../../support/log-of-leaves.js';
import { cosign, type SignerKey } from '../../../src/transparency/sign.js';

const reply = (body: string, status = 200) => ({ status, type: '', body });
const never = new AbortController().signal;
const log = new LogOfLeaves();
const fork = new LogOfLeaves(log.key, 300, 'other', 90);

describe('a monitor', () => {
  const [one, other] = ['w.example/1', 'w.example/2'].map((name) =>
    signerKey(name, generateKeyPairSync('ed25519').privateKey, 'cosignature'),
  ) as [SignerKey, SignerKey];
  let shown: LogOfLeaves;
  let size: number;
  let cosigners: readonly SignerKey[];
  let kept: string[];
  let waits: number;
  beforeEach(() => {
    [shown, size, cosigners, kept, waits] = [log, 100, [], [], 0];
  });

  const answer = (url: string): string => {
    const [, from, to] = /from=(\d+)&to=(\d+)$/.exec(url) ?? [];
    const base64 = (hash: Uint8Array): string => Buffer.from(hash).toString('base64');
    if (from) return JSON.stringify({ proof: shown.proof(Number(from), Number(to)).map(base64) });
    const note = shown.note(size);
    return note + cosigners.map((key) => cosign(parseNote(note).text, key, 1_700_000_000)).join('');
  };
  const open = (options: Partial<MonitorOptions> = {}, state?: string): Monitor =>
    new Monitor(
      {
        url: 'http://log',
        keys: [log.key],
        witnesses: [],
        ask: (url) => Promise.resolve(reply(answer(url))),
        waitForWitnesses: () => {
          waits += 1;
          return Promise.resolve();
        },
        keep: (note) => kept.push(note),
        ...options,
      },
      state,
    );
  const refusal = async (monitor: Monitor): Promise<LogRefused> => {
    const error: unknown = await monitor.look(never).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LogRefused);
    return error as LogRefused;
  };

  it('takes each checkpoint that goes on from the last one, and keeps it', async () => {
    const monitor = open({}, log.note(50));
    expect(monitor.last).toMatchObject({ size: 50 });
    for (size of [100, 100, 200]) expect(await monitor.look(never)).toMatchObject({ size, witnesses: [] });
    expect(kept).toEqual([100, 200].map((one) => log.note(one)));
  });

  it('refuses what contradicts the last one, with both notes', async () => {
    const monitor = open();
    await monitor.look(never);
    [shown, size] = [fork, 100];
    expect(await refusal(monitor)).toMatchObject({
      message: 'two histories: its key has signed two roots of size 100',
      evidence: { kept: log.note(100), shown: fork.note(100) },
    });
    size = 200;
    expect((await refusal(monitor)).evidence).toEqual({ kept: log.note(100), shown: fork.note(200) });
    [shown, size] = [log, 99];
    expect((await refusal(monitor)).message).toBe('it went back from size 100 to 99');
    expect(monitor.last).toMatchObject({ size: 100 });
  });

  it('refuses what no key of the log has signed, and an answer that is no proof', async () => {
    const stranger = new LogOfLeaves();
    shown = stranger;
    expect((await refusal(open())).message).toMatch(/^its checkpoint: .* by none of the known keys/);
    shown = log;
    for (const body of ['{', '{"proof":7}', '{"proof":["x"]}']) {
      const ask: MonitorOptions['ask'] = (url) =>
        Promise.resolve(reply(url.includes('proof') ? body : answer(url)));
      const message = (await refusal(open({ ask }, log.note(50)))).message;
      expect(message).toMatch(/no proof of consistency|32 bytes/);
    }
  });

  it('reads ten times before it refuses one that too few of its witnesses have cosigned', async () => {
    const members = [one, other].map(keyName);
    const both = { witnesses: [one, other], required: { threshold: 2, members } };
    cosigners = [one];
    expect((await refusal(open(both))).message).toBe(
      'its checkpoint of size 100 is cosigned by 1 of the witnesses, and not by 2',
    );
    expect([waits, kept]).toEqual([9, []]);
    expect(await open({ ...both, required: 1 }).look(never)).toMatchObject({ witnesses: [one] });
    cosigners = [other, one];
    expect(await open(both).look(never)).toMatchObject({ size: 100 });
  });

  it('proves nothing by a log that does not answer', async () => {
    const answers503: MonitorOptions['ask'] = () => Promise.resolve(reply('later\n', 503));
    for (const [ask, message] of [
      [answers503, 'the log answers 503 to /log/checkpoint: "later"'],
      [() => Promise.reject(new Error('it is away')), 'the log: it is away'],
    ] as const)
      await expect(open({ ask }).look(never)).rejects.toMatchObject({ name: LogUnreachable.name, message });
  });
});

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { recordAll, type Recording } from '../support/golden/compare.js';
import { copyOfStores, golden, goldenZipped, meta } from '../support/golden/files.js';
import { record, runCommand, Stable, startService, tokensOf } from '../support/golden/recording.js';
import { load } from '../support/golden/redis-dump.js';
import { type GoldenRequest } from '../support/golden/requests.js';
import { CLI } from '../support/http-cli.js';
import { RedisServer } from '../support/redis-server.js';

const parsed = <T>(text: string): T[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);

/** The first difference of two texts with what is around it: whole answers would fill CI's output. */
const difference = (expected: string, found: string): string => {
  if (expected === found) return 'none';
  let at = 0;
  while (expected[at] === found[at]) at += 1;
  const around = (text: string): string => JSON.stringify(text.slice(Math.max(0, at - 60), at + 60));
  return `at ${at}: expected ${around(expected)}, found ${around(found)}`;
};

const differences = (
  expected: readonly Readonly<Record<string, unknown>>[],
  found: readonly Readonly<Record<string, unknown>>[],
): string[] =>
  expected.flatMap((one, index) => {
    const [was, is] = [JSON.stringify(one), JSON.stringify(found[index])];
    return was === is ? [] : [`${String(one.request ?? one.command)} ${difference(was, is)}`];
  });

describe('what an older version has written', () => {
  let recording: Recording;
  beforeAll(async () => {
    recording = await recordAll(CLI);
  });

  it('is opened, and requests are answered as they were', () => {
    const expected = parsed<Record<string, unknown>>(goldenZipped('answers.ndjson').toString());
    expect(
      differences(
        expected,
        recording.answers.map((one) => ({ ...one })),
      ),
    ).toEqual([]);
    expect(recording.answers).toHaveLength(expected.length);
  });

  it('is opened by commands, which print what they did', () => {
    const expected = parsed<Record<string, unknown>>(golden('outputs.ndjson'));
    expect(
      differences(
        expected,
        recording.outputs.map((one) => ({ ...one })),
      ),
    ).toEqual([]);
    expect(recording.outputs).toHaveLength(expected.length);
  });

  it.each(['bundle.ndjson', 'bundle-bob.ndjson'])('is exported as it was, byte for byte: %s', (name) => {
    const exported = String(recording.bundles[name]);
    expect(difference(goldenZipped(name).toString(), exported)).toBe('none');
  });

  it('is exported as it was where the log records a second checkpoint', async () => {
    const dataDir = copyOfStores('recorded');
    const out = join(dataDir, 'bundle.ndjson');
    const { stderr } = await runCommand(CLI, ['export', '--out', out], { DATA_DIR: dataDir });
    expect(stderr).not.toContain('error');
    expect(difference(goldenZipped('bundle-recorded.ndjson').toString(), readFileSync(out, 'utf8'))).toBe(
      'none',
    );
  });

  it.each([1, 2])('has the receipt that was given then: %d', (number) => {
    const position = meta().positions[number - 1] ?? '';
    const answer = recording.answers.find(({ request }) =>
      request.startsWith(`alice: GET /log/receipt?position=${position} `),
    );
    expect(answer?.body).toBe(golden(`receipt-${number}.json`));
  });

  it('is answered from lists in Redis as well', async () => {
    const redis = await RedisServer.start();
    const dataDir = copyOfStores();
    const settings = { DATA_DIR: dataDir, READ_MODEL: redis.url };
    await load(redis.url, goldenZipped('redis.ndjson').toString());
    const service = await startService(CLI, settings);
    try {
      const requests = (['alice', 'bob', 'olga', 'carol'] as const).map((as): GoldenRequest => ({
        as,
        path: '/plants?limit=1000',
      }));
      const stable = new Stable(meta().madeAt, '');
      const tokens = await tokensOf(settings);
      const answers = await record(service.url, requests, tokens, stable);
      const expected = parsed<{ request: string; body: string }>(goldenZipped('answers.ndjson').toString());
      for (const { request, body } of answers)
        expect(difference(expected.find((one) => one.request === request)?.body ?? '', body)).toBe('none');
      const status = await fetch(`${service.url}/operations/status`, {
        headers: { authorization: `Bearer ${tokens.get('operator') ?? ''}` },
      });
      expect(await status.json()).toMatchObject({
        generations: [{ active: true }],
      });
    } finally {
      await service.stop();
      await redis.stop();
    }
  });
});

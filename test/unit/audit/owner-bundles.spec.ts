import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { BundleRefused } from '../../../src/transparency/bundle-format.js';
import { checkBundle, type Checked } from '../../../src/audit/check.js';
import { formatVerifierKey } from '../../../src/transparency/note.js';
import { plantStream } from '../../../src/domain/stream.js';
import { AuditedLog, OWNERS } from '../../support/audited-log.js';
import { sampleMetadata } from '../../support/log-events.js';
import { checkByPython, PYTHON } from '../../support/python-check.js';

interface Siblings {
  left: { bit: number; hash: string }[];
  right: { bit: number; hash: string }[];
}

describe('a bundle of one owner', () => {
  let log: AuditedLog;
  let bob: string[];
  let alice: string[];
  let older: string[];
  beforeAll(async () => {
    log = await AuditedLog.open();
    // Many others, so that there is something on both sides of each owner.
    for (let n = 0; n < 40; n++) await create(`owner ${n}`, 1);
    await log.fill(60);
    await log.sign();
    older = await linesOf('bob');
    await log.fill(60);
    await log.sign();
    bob = await linesOf('bob');
    alice = await linesOf('alice');
  });
  afterAll(() => log.remove());

  const create = (owner: string, id: number) =>
    log.log.append(plantStream(owner, id), 'none', [
      {
        id: randomUUID(),
        type: 'PlantCreated',
        data: { id, name: 'Ficus', tag: '' },
        metadata: sampleMetadata({ actor: { sub: owner } }),
      },
    ]);
  const linesOf = async (owner: string): Promise<string[]> =>
    (await log.bundle({ owner })).trimEnd().split('\n');
  const check = (lines: readonly string[]): Promise<Checked | BundleRefused> =>
    checkBundle(
      {
        bundle: async function* () {
          await Promise.resolve();
          yield Buffer.from(`${lines.join('\n')}\n`);
        },
        trust: { keys: [log.key], witnesses: [] },
        against: undefined,
        previous: undefined,
      },
      () => undefined,
    ).catch((error: unknown) => {
      if (error instanceof BundleRefused) return error;
      throw error;
    });
  const pythonSays = (bundles: readonly (readonly string[])[]): string[] =>
    checkByPython(
      bundles.map((lines) => ({
        bundle: Buffer.from(`${lines.join('\n')}\n`),
        key: formatVerifierKey(log.key),
        against: undefined,
      })),
    ).map(({ status, says }) => (status === 0 ? says : 'refused'));

  it.each(OWNERS)('proves that no plant of %s is missing', async (owner) => {
    const lines = await linesOf(owner);
    expect(await check(lines)).toMatchObject({ isStateProven: true });
    if (PYTHON) expect(pythonSays([lines])[0]).toMatch(/ all plants that are present$/);
  });

  it('proves it of the plants, and not of what was deleted', async () => {
    const deleted = bob.filter((line) => !line.includes('PlantDeleted')).length < bob.length;
    expect(deleted).toBe(true);
    const gone = bob.findIndex((line) => line.includes('PlantDeleted'));
    const [, stream = ''] = /"stream":"([^"]*)"/.exec(bob[gone] ?? '') ?? [];
    const without = bob.filter((line) => !line.includes(`"stream":"${stream}"`));
    const lines = [...without.slice(0, -1), `{"end":${without.length - 3}}`];
    expect(await check(lines)).toMatchObject({ isStateProven: true });
    if (PYTHON) expect(pythonSays([lines])[0]).not.toBe('refused');
  });

  it('proves nothing of an owner without plants, and says so', async () => {
    await create('carol', 1);
    await log.log.append(plantStream('carol', 1), 0n, [
      { id: randomUUID(), type: 'PlantDeleted', data: { id: 1 }, metadata: sampleMetadata({}) },
    ]);
    await log.sign();
    for (const owner of ['carol', 'nobody']) {
      const lines = await linesOf(owner);
      expect(lines.filter((line) => line.startsWith('{"left"'))).toEqual([]);
      expect(await check(lines)).toMatchObject({ isStateProven: false });
      if (PYTHON) expect(pythonSays([lines])[0]).toMatch(/^proven: (?!.*all plants)/);
    }
  });

  it('is refused by all three checkers where a plant is missing, or the proof is another', async () => {
    const at = bob.length - 2;
    const proof = bob[at] ?? '';
    const { left, right } = JSON.parse(proof) as Siblings;
    expect([left.length > 0, right.length > 0]).toEqual([true, true]);
    const beside = (siblings: Siblings): string[] => bob.with(at, JSON.stringify(siblings));
    const without = (index: number): string[] => [
      ...bob.slice(0, -1).filter((_, line) => line !== index),
      `{"end":${bob.length - 4}}`,
    ];
    const created = bob.flatMap((line, index) => (line.includes('PlantCreated') ? [index] : []));
    const deletions = bob.flatMap((line, index) => (line.includes('PlantDeleted') ? [index] : []));
    const present = created.filter((index) => {
      const [, stream = '-'] = /"stream":"([^"]*)"/.exec(bob[index] ?? '') ?? [];
      return bob.filter((line) => line.includes(`"stream":"${stream}"`)).length === 1;
    });
    const [one = { bit: 0, hash: '' }, ...others] = left;
    const [two = { bit: 0, hash: '' }] = right;
    const indexOf = (line: string): number => Number(/"index":(\d+),/.exec(line)?.[1] ?? -1);
    const [, stranger = ''] = alice;
    const between = bob.findIndex((line) => indexOf(line) > indexOf(stranger));
    const falsified: Readonly<Record<string, string[]>> = {
      'with an event of another owner': [
        ...bob.slice(0, -1).toSpliced(between, 0, stranger),
        `{"end":${bob.length - 2}}`,
      ],
      ...Object.fromEntries(present.map((index) => [`without plant ${index}`, without(index)])),
      ...Object.fromEntries(deletions.map((index) => [`without deletion ${index}`, without(index)])),
      'a sibling less on the left': beside({ left: others, right }),
      'no sibling on the left': beside({ left: [], right }),
      'no sibling on the right': beside({ left, right: [] }),
      'no siblings': beside({ left: [], right: [] }),
      'a sibling twice': beside({ left: [one, ...left], right }),
      'the sides swapped': beside({ left: right, right: left }),
      'a sibling on the other side': beside({ left: others, right: [...right, one] }),
      'two hashes swapped': beside({
        left: [{ ...one, hash: two.hash }, ...others],
        right: [{ ...two, hash: one.hash }, ...right.slice(1)],
      }),
      'another bit': beside({ left: [{ ...one, bit: one.bit + 1 }, ...others], right }),
      'a bit below the owner': beside({ left, right: [...right, { ...two, bit: 300 }] }),
      'another hash': beside({
        left: [{ ...one, hash: Buffer.alloc(32, 1).toString('base64') }, ...others],
        right,
      }),
      'the proof of another owner': bob.with(at, alice.at(-2) ?? ''),
      'the proof of an older checkpoint': bob.with(at, older.at(-2) ?? ''),
      'the proof twice': bob.toSpliced(at, 0, proof),
      'the proof before the events': [bob[0] ?? '', proof, ...bob.slice(1, at), ...bob.slice(at + 1)],
      'the proof before the last event': bob.with(at, bob[at - 1] ?? '').with(at - 1, proof),
      'the proof after the end': bob.with(at, bob[at + 1] ?? '').with(at + 1, proof),
    };
    expect(present.length + deletions.length).toBeGreaterThan(30);
    const core: string[] = [];
    for (const [name, lines] of Object.entries(falsified))
      if (!((await check(lines)) instanceof BundleRefused)) core.push(name);
    expect(core).toEqual([]);
    if (!PYTHON) return;
    const names = Object.keys(falsified);
    const said = pythonSays(Object.values(falsified));
    expect(names.filter((_, index) => said[index] !== 'refused')).toEqual([]);
  });
});

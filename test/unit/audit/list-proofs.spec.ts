import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type ListAsked, ListProofs } from '../../../src/audit/list-proofs.js';
import { type Hash } from '../../../src/transparency/merkle.js';
import { formatVerifierKey, type VerifierKey } from '../../../src/transparency/note.js';
import { LogAltered, NotSignedYet, PublishedTree } from '../../../src/audit/published-tree.js';
import { type ProvenList, verifyListProof } from '../../../src/transparency/list-proof.js';
import { ownerPrefix, plantKey, plantValue } from '../../../src/transparency/state.js';
import { plantStream } from '../../../src/domain/stream.js';
import { randomOf } from '../../support/altered/kind.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { sampleMetadata } from '../../support/log-events.js';
import { proven, trusting } from '../../support/verified.js';
import { ALL_CHECKED, checkByPython, PYTHON, type PythonRun } from '../../support/python-check.js';

/** The proof as a forger edits it. */
interface Edited {
  owner: string;
  after?: unknown;
  last: unknown;
  plants: { id: number; event: { data: Record<string, unknown>; id: string } }[];
  before?: unknown;
  instead?: { key: string; value: string };
  left: { bit: number; hash: string }[];
  right: { bit: number; hash: string }[];
  checkpoint: string;
}

const now = (): Date => new Date();
const briefly = (): AbortSignal => AbortSignal.timeout(5_000);
const here = PYTHON ? it : it.skip; // where there is no python3 or no openssl

/** Proofs of pages of any kind that both checkers verify: TEST_PROOFS for more. */
const TRUE_PROOFS = Number(process.env.TEST_PROOFS ?? 100);
/** In one run of check.py. */
const PROOFS_AT_ONCE = 500;

/** Plants of each owner; the last one has none. */
const OWNERS = ['ada', 'Zoë/1', 'many', 'one', 'nobody'] as const;
const IDS: Readonly<Record<string, readonly number[]>> = {
  ada: [-5, 1, 2, 3, 7, 8, 9, 100, 2 ** 53 - 1],
  'Zoë/1': [4, 5, 6, 7, 8, 9],
  many: Array.from({ length: 90 }, (_, at) => at * 3 - 40),
  one: [0],
};

let log: AuditedLog;
let proofs: ReturnType<typeof publish>;
let older: string;
let vkey: string;

/** Makes proofs, of which each may show entries of others. */
const publish = (log: AuditedLog) => {
  const tree = new PublishedTree(log.log, log.tree, now, () => undefined, [log.key]);
  const lists = new ListProofs(log.log, log.tree, tree, now, () => undefined);
  const of = async (asked: Omit<ListAsked, 'mayShowOthers'>, signal: AbortSignal): Promise<string> =>
    (await lists.of({ ...asked, mayShowOthers: true }, signal)) ?? '';
  return { lists, of };
};
const create = async (owner: string, id: number, revision: 'none' | bigint = 'none'): Promise<void> => {
  const data = { id, name: `Φίκος ${owner} ${id} ${revision} 🌿`, tag: '' };
  const event = { id: randomUUID(), type: 'PlantCreated', data, metadata: sampleMetadata() };
  await log.log.append(plantStream(owner, id), revision, [event]);
};
const remove = async (owner: string, id: number, revision: bigint): Promise<void> => {
  const event = { id: randomUUID(), type: 'PlantDeleted', data: { id }, metadata: sampleMetadata() };
  await log.log.append(plantStream(owner, id), revision, [event]);
};

beforeAll(async () => {
  log = await AuditedLog.open(newSigner());
  vkey = formatVerifierKey(log.key);
  proofs = publish(log);
  for (const [owner, ids] of Object.entries(IDS)) await Promise.all(ids.map((id) => create(owner, id)));
  await create('ada', 6);
  await log.sign();
  older = await proofs.of({ owner: 'ada', after: undefined, limit: 20 }, briefly());
  await remove('ada', 6, 0n);
  await remove('ada', 7, 0n);
  await create('ada', 7, 1n);
  await log.sign();
});
afterAll(() => log.remove());

const listIn = (text: string, key: VerifierKey = log.key): Promise<ProvenList> =>
  proven(verifyListProof(text, trusting(key)));
const verdictOf = async (text: string): Promise<string> => {
  const result = await verifyListProof(text, trusting(log.key));
  return result.verdict === 'refused' ? `refused: ${result.reason}` : result.verdict;
};
const runOf = (text: string): PythonRun => ({ bundle: Buffer.from(text), key: vkey, against: undefined });

/** Every page of every owner, by pages of so many. */
const everyPage = async (limit: number): Promise<string[]> => {
  const pages: string[] = [];
  for (const owner of OWNERS)
    for (let after: number | undefined, last = false; !last;) {
      const text = await proofs.of({ owner, after, limit }, briefly());
      pages.push(text);
      const page = await listIn(text);
      ({ isLast: last } = page);
      after = page.plants.at(-1)?.id;
    }
  return pages;
};

describe('the proof of a list', () => {
  it('is proven for each page of each owner, and together they are the whole list', async () => {
    for (const limit of [1, 2, 7, 20, 1_000]) {
      const listed = new Map<string, number[]>();
      for (const text of await everyPage(limit)) {
        const { owner, plants } = await listIn(text);
        expect(plants.length).toBeLessThanOrEqual(limit);
        listed.set(owner, [...(listed.get(owner) ?? []), ...plants.map(({ id }) => id)]);
      }
      expect(Object.fromEntries(listed)).toEqual({ ...IDS, nobody: [] });
    }
  });

  it('shows the event that created what is there, not one before or after the checkpoint', async () => {
    const seven = async (text: string): Promise<unknown> =>
      (await listIn(text)).plants.find(({ id }) => id === 7)?.event.data;
    expect(await seven(older)).toMatchObject({ name: 'Φίκος ada 7 none 🌿' });
    const text = await proofs.of({ owner: 'ada', after: undefined, limit: 20 }, briefly());
    expect(await seven(text)).toMatchObject({ name: 'Φίκος ada 7 1 🌿' });
    await remove('ada', 7, 2n);
    await create('ada', 7, 3n);
    // Of the last checkpoint, whatever the log holds beyond it.
    expect(await proofs.of({ owner: 'ada', after: undefined, limit: 20 }, briefly())).toBe(text);
    await remove('ada', 7, 4n);
    await create('ada', 7, 5n);
    await log.sign();
  });

  it('is not looked for beyond its time among the events of a plant, and is there when it is asked for again', async () => {
    const busy = await AuditedLog.open(newSigner());
    try {
      const stream = plantStream('ada', 1);
      const event = (type: string) => ({
        id: randomUUID(),
        ...{ type, data: { id: 1, name: 'n', tag: '' }, metadata: sampleMetadata() },
      });
      const changes = (times: number) =>
        Array.from({ length: times }, () => [event('PlantDeleted'), event('PlantCreated')]).flat();
      await busy.log.append(stream, 'none', [event('PlantCreated'), ...changes(100)]);
      await busy.sign();
      await busy.log.append(stream, 200n, changes(1));
      const asked = { owner: 'ada', after: undefined, limit: 20 };
      const read = jest.spyOn(busy.log, 'readStream');
      const pages = (): number => read.mock.calls.filter(([name]) => name === stream).length;
      const late = publish(busy).of(asked, AbortSignal.abort());
      await expect(late).rejects.toThrow(NotSignedYet);
      await expect(late).rejects.toThrow(/too many events, and was changed a moment ago/);
      expect(pages()).toBe(1);
      await listIn(await publish(busy).of(asked, briefly()), busy.key);
      expect(pages()).toBe(1 + 3);
      await busy.sign();
      await listIn(await publish(busy).of(asked, AbortSignal.abort()), busy.key);
      expect(pages()).toBe(1 + 3);
    } finally {
      await busy.remove();
    }
  });

  it('takes at most 4 kB beside its plants', async () => {
    const text = await proofs.of({ owner: 'many', after: 20, limit: 20 }, briefly());
    const { plants } = JSON.parse(text) as Edited;
    expect(plants).toHaveLength(20);
    expect(text.length - JSON.stringify(plants).length).toBeLessThan(4_096);
  });

  it('is refused in 500 falsified forms of 13 kinds by the library and docs/check.py', async () => {
    const pages = [...(await everyPage(3)), ...(await everyPage(20))];
    const random = randomOf(11);
    const forged: { kind: string; text: string }[] = [];
    for (let time = 0; time < 80; time++) {
      const text = pages[random(pages.length)] ?? '';
      for (const [kind, edit] of Object.entries(forgeries(pages, random))) {
        const proof = JSON.parse(text) as Edited;
        if (edit(proof) === false) continue;
        const edited = JSON.stringify(proof);
        if (edited !== text) forged.push({ kind, text: edited });
      }
    }
    const kinds = new Map<string, number>();
    for (const { kind, text } of forged) {
      expect([kind, await verdictOf(text)]).toEqual([kind, expect.stringMatching(/^refused: ./)]);
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    }
    expect(kinds.size).toBe(13);
    expect(forged.length).toBeGreaterThan(500);
    if (!PYTHON) return;
    const asked = forged.filter((_, at) => ALL_CHECKED || at % 10 === 0);
    const verdicts = checkByPython(asked.map(({ text }) => runOf(text)));
    for (const [at, { kind, text }] of asked.entries())
      expect([kind, text, verdicts[at]?.says]).toEqual([kind, text, expect.stringMatching(/^refused: /)]);
  });

  here('is proven by docs/check.py too, and refused there where it is of another owner', async () => {
    const pages = [...(await everyPage(4)), ...(await everyPage(1_000)), older];
    const verdicts = checkByPython(pages.map(runOf));
    expect(verdicts.map(({ says }) => says.slice(0, 7))).toEqual(pages.map(() => 'proven:'));
    const [, other] = checkByPython([
      { ...runOf(older), owner: 'ada' },
      { ...runOf(older), owner: 'one' },
    ]);
    expect(other).toEqual({ status: 1, says: 'refused: it is of another owner' });
  });

  it(
    'is proven for pages of any kind by the library and docs/check.py',
    async () => {
      const random = randomOf(5);
      for (let left = TRUE_PROOFS; left > 0; left -= PROOFS_AT_ONCE) {
        const pages: string[] = [];
        for (let more = Math.min(left, PROOFS_AT_ONCE); more > 0; more--) {
          const owner = OWNERS[random(OWNERS.length)] ?? '';
          const after = random(4) === 0 ? undefined : random(340) - 60;
          // An owner without plants is proven to be absent: there is no page after an id.
          pages.push(
            await proofs.of(
              { owner, after: owner === 'nobody' ? undefined : after, limit: 1 + random(30) },
              briefly(),
            ),
          );
        }
        for (const page of pages) expect(await verdictOf(page)).toBe('proven');
        if (!PYTHON) continue;
        const verdicts = checkByPython(pages.map(runOf));
        expect(verdicts.map(({ says }) => says.slice(0, 7))).toEqual(pages.map(() => 'proven:'));
      }
    },
    60_000 + TRUE_PROOFS * 200,
  );

  it('that nobody has a plant of this name holds for others only where their plants would stand there', async () => {
    const text = await proofs.of({ owner: 'nobody', after: undefined, limit: 20 }, briefly());
    const said = new Map<string, number>();
    for (let nth = 0; nth < 200; nth++) {
      const owner = nth < OWNERS.length ? (OWNERS[nth] ?? '') : `nobody ${nth}`;
      const edited = JSON.stringify({ ...(JSON.parse(text) as Edited), owner });
      const verdict = await verdictOf(edited);
      said.set(verdict, (said.get(verdict) ?? 0) + 1);
    }
    expect([...said.keys()]).toEqual(
      expect.arrayContaining([
        'proven',
        'refused: the entry that is shown does not stand where the owner would',
      ]),
    );
  });

  it('does not hold by a plant of the owner', async () => {
    const proof = JSON.parse(
      await proofs.of({ owner: 'one', after: undefined, limit: 20 }, briefly()),
    ) as Edited;
    const [plant] = proof.plants;
    const prefix = ownerPrefix('one');
    const value = plantValue(plant?.event.id ?? '', plant?.event.data);
    const instead = [plantKey(prefix, plant?.id ?? 0), value].map((one) =>
      Buffer.from(one).toString('base64'),
    );
    const edited = JSON.stringify({ ...proof, plants: [], instead: { key: instead[0], value: instead[1] } });
    expect(await verdictOf(edited)).toBe('refused: the owner has a plant: the entry that is shown');
  });

  it('is refused where its text is none', async () => {
    const proof = JSON.parse(older) as Edited;
    const wrong: [string, Partial<Record<keyof Edited | 'cosigned' | 'version', unknown>>][] = [
      ['owner', { owner: 7 }],
      ['owner', { owner: '\ud800' }],
      ['after', { after: '1' }],
      ['last', { last: 1 }],
      ['plants', { plants: {} }],
      ['plants, 0', { plants: [{ id: 1 }] }],
      ['before', { before: { id: 1.5, value: '' } }],
      ['instead', { instead: { key: '', value: '' } }],
      ['left', { left: [{ bit: 1, hash: 'abc' }] }],
      ['right', { right: {} }],
      ['checkpoint', { checkpoint: 1 }],
      ['cosigned', { cosigned: 1 }],
      ['cosigned', { cosigned: '' }],
      ['cosigned', { version: 2 }],
      ['plants', { plants: Array.from({ length: 1_001 }, () => proof.plants[0]) }],
      ['plants, 0', { plants: [7] }],
      ['plants, 0', { plants: [{ id: 1, event: null }] }],
      ['plants, 0', { plants: [{ id: 1, event: { id: 'x' } }] }],
      ['plants, 0', { plants: [{ id: 1, event: { id: 7, data: {} } }] }],
      ['before', { before: 7 }],
      ['before', { before: { id: 1, value: 7 } }],
      ['instead', { plants: [], instead: 7 }],
      ['instead', { plants: [], instead: { key: 'AAAA', value: '' } }],
      ['left', { left: [7] }],
      ['right', { right: [{ bit: '1', hash: '' }] }],
    ];
    for (const [where, change] of wrong)
      expect(await verdictOf(JSON.stringify({ ...proof, ...change }))).toBe(
        `refused: its value under ${where} is not possible`,
      );
    expect(await verdictOf('{"format":"plants-list","version":3}')).toMatch(
      /not a list proof of version 1 or 2/,
    );
    expect(await verdictOf(older.slice(0, -2))).toMatch(/not a list proof of version 1 or 2/);
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    expect(await verdictOf(older.replace(/"data":\{[^}]*\}/, `"data":${deep}`))).toMatch(/no canonical form/);
  });

  it('shows nothing of others to an owner who may not see it', async () => {
    const asked = { after: undefined, limit: 20, mayShowOthers: false };
    expect(await proofs.lists.of({ ...asked, owner: 'nobody' }, briefly())).toBeUndefined();
    const text = (await proofs.lists.of({ ...asked, owner: 'one' }, briefly())) ?? '';
    expect(await listIn(text)).toMatchObject({ owner: 'one', isLast: true });
    expect(JSON.parse(text)).not.toHaveProperty('instead');
  });

  it('is of a state that a checkpoint commits to', async () => {
    const bare = await AuditedLog.open();
    try {
      await expect(
        publish(bare).of({ owner: 'ada', after: undefined, limit: 1 }, AbortSignal.abort()),
      ).rejects.toThrow(NotSignedYet);
      await bare.sign();
      const text = await publish(bare).of({ owner: 'ada', after: undefined, limit: 1 }, briefly());
      expect(await listIn(text, bare.key)).toMatchObject({ plants: [], isLast: true });
    } finally {
      await bare.remove();
    }
  });
});

/** Edits of a proof; false where it has no such form. */
const forgeries = (
  pages: readonly string[],
  random: (below: number) => number,
): Record<string, (proof: Edited) => unknown> => {
  const other = (): Edited => JSON.parse(pages[random(pages.length)] ?? '') as Edited;
  const hash = (): string => Buffer.from(Array.from({ length: 32 }, () => random(256))).toString('base64');
  return {
    omission: ({ plants }) => plants.length > 0 && plants.splice(random(plants.length), 1),
    addition: ({ plants }) =>
      plants.push({ id: 5_000, event: { data: { id: 5_000, name: 'x', tag: '' }, id: randomUUID() } }),
    'another name': ({ plants }) =>
      plants.length > 0 && Object.assign(plants[random(plants.length)]?.event.data ?? {}, { name: 'y' }),
    'another id': ({ plants }) => plants.length > 0 && Object.assign(plants.at(-1) ?? {}, { id: 4_999 }),
    swap: ({ plants }) => plants.length > 1 && plants.reverse(),
    doubled: ({ plants }) => plants.length > 0 && plants.unshift(...plants.slice(0, 1)),
    'another owner': (proof) => {
      const { owner } = other();
      // A proof of absence may hold for other owners without plants, too.
      if (proof.plants.length === 0 && proof.before === undefined) return false;
      return owner !== proof.owner && (proof.owner = owner);
    },
    'the other end': (proof) => {
      proof.last = !proof.last; // not its value: false would mean that there is no such form
    },
    'another checkpoint': (proof) => (proof.checkpoint = (JSON.parse(older) as Edited).checkpoint),
    'swapped sides': (proof) => {
      [proof.left, proof.right] = [proof.right, proof.left];
    },
    'another hash': ({ left, right }) =>
      left.length + right.length > 0 && [...left, ...right].slice(0, 1).map((one) => (one.hash = hash())),
    'earlier begin': (proof) => {
      const [first] = proof.plants;
      if (!first || proof.before !== undefined) return false;
      proof.after = first.id;
      return true;
    },
    'later begin': (proof) => {
      if (proof.plants.length < 2) return false;
      const [first] = proof.plants.splice(0, 1);
      proof.after = first?.id;
      return true;
    },
  };
};

describe('a stored state that was altered', () => {
  const rootOf = async (altered: AuditedLog): Promise<Hash> => (await altered.tree.state()).root;

  it('is found when a proof is made of it, and then stands as an alarm', async () => {
    const altered = await AuditedLog.open();
    try {
      await altered.fill(40);
      await altered.sign();
      expect(await rootOf(altered)).toHaveLength(32);
      altered.tamper(
        "UPDATE state_nodes SET node = CAST(substr(node, 1, length(node) - 1) || x'00' AS BLOB) WHERE length(node) % 72 = 0",
      );
      const asked = publish(altered).of({ owner: 'alice', after: undefined, limit: 3 }, briefly());
      await expect(asked).rejects.toThrow(LogAltered);
    } finally {
      await altered.remove();
    }
  });

  it('is not proven by a log that lacks an event of it, which is read again soon', async () => {
    const altered = await AuditedLog.open();
    try {
      await altered.fill(10);
      await altered.sign();
      altered.alter('DELETE FROM events WHERE seq = 3');
      let asked = 0;
      const tree = new PublishedTree(altered.log, altered.tree, now, () => undefined, [altered.key]);
      const lists = new ListProofs(altered.log, altered.tree, tree, now, () => (asked += 1));
      for (const owner of ['alice', 'bob', 'Zoë/1'])
        await lists
          .of({ owner, after: undefined, limit: 20, mayShowOthers: false }, briefly())
          .catch((error: unknown) => {
            expect(error).toBeInstanceOf(LogAltered);
          });
      expect(asked).toBe(1);
    } finally {
      await altered.remove();
    }
  });

  it('is waited for where it is not that of the last checkpoint yet', async () => {
    const ahead = await AuditedLog.open();
    try {
      await ahead.fill(10);
      await ahead.sign();
      await ahead.fill(10);
      const { size, position } = await ahead.grow();
      await ahead.tree.growState({ from: 10, size, position, changes: new Uint8Array() });
      const asked = { owner: 'alice', after: undefined, limit: 3 };
      await expect(publish(ahead).of(asked, AbortSignal.timeout(50))).rejects.toThrow(NotSignedYet);
    } finally {
      await ahead.remove();
    }
  });

  it('is found where its root is another, or it lacks nodes', async () => {
    for (const sql of [
      'UPDATE state SET hash = zeroblob(32)',
      'DELETE FROM state_nodes WHERE number % 3 = 0',
    ]) {
      const altered = await AuditedLog.open();
      try {
        await altered.fill(40);
        await altered.sign();
        altered.tamper(sql);
        const asked = publish(altered).of({ owner: 'bob', after: undefined, limit: 20 }, briefly());
        await expect(asked).rejects.toThrow('is not the one that was signed');
        expect(await altered.tree.alarm()).toMatchObject({ kind: 'tree' });
      } finally {
        await altered.remove();
      }
    }
  });
});

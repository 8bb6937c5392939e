import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import {
  BundleRefused,
  endLine,
  eventLine,
  MAX_LINE_BYTES,
  parseLine,
} from '../../../src/transparency/bundle-format.js';
import { checkBundle, type Checked } from '../../../src/audit/check.js';
import { parseCheckpoint } from '../../../src/transparency/checkpoint.js';
import { EMPTY_ROOT, type Hash, leafHash } from '../../../src/transparency/merkle.js';
import { formatVerifierKey, keyName, parseNote, type VerifierKey } from '../../../src/transparency/note.js';
import { PlantsState } from '../../../src/transparency/plants-state.js';
import { type StateEvent } from '../../../src/transparency/state.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type Json } from '../../../src/log/event-log.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { trusting, verifiedAsStream } from '../../support/verified.js';
import { sampleMetadata } from '../../support/log-events.js';
import { ALL_CHECKED, checkByPython, PYTHON, type PythonRun } from '../../support/python-check.js';
import { signCheckpoint, signNote } from '../../../src/transparency/sign.js';

/** One block, and some events more. */
const EVENTS = 266;

/** A smaller tree that was signed before. */
const OLD = 100;

interface Asked {
  readonly key?: VerifierKey | undefined;
  readonly against?: string | undefined;
  readonly previous?: string | Uint8Array | undefined;
}

/** In pieces of no particular size. */
const bytesOf = (text: string | Uint8Array, size = 10_000) =>
  async function* () {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += size) {
      await Promise.resolve();
      yield bytes.subarray(at, at + size);
    }
  };

/** The result of a check: the contents of the bundle, or the place where it is refused. */
const verdictOf = async (
  text: string | Uint8Array,
  { key, against, previous }: Asked = {},
): Promise<Checked | BundleRefused> => {
  try {
    return await checkBundle(
      {
        bundle: bytesOf(text),
        trust: trusting(...(key ? [key] : [])),
        against: against === undefined ? undefined : Buffer.from(against),
        previous: previous === undefined ? undefined : bytesOf(previous, 777),
      },
      () => undefined,
    );
  } catch (error) {
    if (error instanceof BundleRefused) return error;
    throw error;
  }
};

/** A generator of pseudo-random numbers below a bound, the same ones in each run (mulberry32). */
const dice = (seed: number) => (below: number) => {
  seed = (seed + 0x6d2b79f5) | 0;
  let value = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
  return Math.floor((((value ^ (value >>> 14)) >>> 0) / 2 ** 32) * below);
};

const linesOf = (text: string): string[] => text.trimEnd().split('\n');
const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');

let log: AuditedLog;
let twin: AuditedLog;
let oldNote: string;
let oldBundle: string;
let whole: string;
let late: string;
let owned: string;
/** The bundle of another log, which is signed by the same key. */
let foreign: string;
let foreignNote: string;

/** Bundles that were altered, and what was said to them: docs/check.py has to say the same. */
const tried: { readonly name: string; readonly run: PythonRun; readonly verdict: Checked | BundleRefused }[] =
  [];

const check = async (name: string, text: string | Uint8Array, asked: Asked = {}) => {
  const { key = log.key, against, previous } = { ...asked };
  const used = 'key' in asked ? asked.key : key;
  const verdict = await verdictOf(text, { key: used, against, previous });
  if (previous === undefined)
    tried.push({
      name,
      run: { bundle: Buffer.from(text), key: used && formatVerifierKey(used), against },
      verdict,
    });
  return verdict;
};

const refused = async (
  name: string,
  text: string | Uint8Array,
  asked: Asked = {},
): Promise<BundleRefused> => {
  const verdict = await check(name, text, asked);
  if (!(verdict instanceof BundleRefused)) throw new Error(`${name} was not refused`);
  expect(verdict.message).not.toMatch(/[\n\x1b]/);
  return verdict;
};

beforeAll(async () => {
  const key = newSigner();
  log = await AuditedLog.open(key);
  twin = await AuditedLog.open(key);
  await log.fill(OLD);
  oldNote = await log.sign();
  oldBundle = await log.bundle();
  await log.fill(EVENTS - OLD);
  await log.sign();
  whole = await log.bundle();
  late = await log.bundle({ from: '250' });
  owned = await log.bundle({ owner: 'bob', from: '230' });
  await twin.fill(EVENTS);
  foreignNote = await twin.sign();
  foreign = await twin.bundle();
});
afterAll(async () => {
  await log.remove();
  await twin.remove();
});

describe('a bundle passes', () => {
  const passes = async (name: string, text: string | Uint8Array, asked: Asked = {}) => {
    const verdict = await check(name, text, asked);
    if (verdict instanceof BundleRefused) throw verdict;
    return verdict;
  };

  it('as it was made, and in whatever pieces it is read', async () => {
    for (const [name, text] of Object.entries({ whole, late, owned }))
      expect((await passes(name, text)).signedBy).toBe(keyName(log.key));
    for (const size of [1, 7, 64_000])
      expect(
        await checkBundle(
          { bundle: bytesOf(late, size), trust: trusting(), against: undefined, previous: undefined },
          () => undefined,
        ),
      ).toMatchObject({ events: EVENTS - 250 });
  });

  it('without a key, but then nobody is said to have signed it', async () => {
    expect((await passes('no key', whole, { key: undefined })).signedBy).toBeUndefined();
  });

  it('against a checkpoint from before, if it begins soon enough', async () => {
    const { against } = await passes('against', whole, { against: oldNote });
    expect(against).toBe(OLD);
    await passes('from there', await log.bundle({ from: String(OLD) }), { against: oldNote });
    await passes('from before', await log.bundle({ from: '99' }), { against: oldNote });
  });

  it('against its own checkpoint', async () => {
    const note = String((await log.tree.latestCheckpoint())?.note);
    await passes('own checkpoint', whole, { against: note });
    await passes('own checkpoint, one owner', owned, { against: note });
  });

  it('beside an older bundle, and says what has changed', async () => {
    const { previous, plants } = await passes('previous', whole, { previous: oldBundle });
    expect(previous?.events).toBe(OLD);
    const bobs = [previous?.plants?.get('bob'), plants?.get('bob')].map(Number);
    expect(bobs[0]).toBeGreaterThan(0);
    expect(bobs[1]).toBeGreaterThan(Number(bobs[0]));
    await passes('of one owner', owned, { previous: oldBundle });
    await passes('that of one owner', whole, { previous: owned });
  });
});

describe('a bundle is refused', () => {
  it('with a bit flipped in any line', async () => {
    const random = dice(1);
    for (const [name, text] of Object.entries({ whole, late, owned })) {
      const lines = linesOf(text);
      for (const [at, line] of lines.entries()) {
        if (name === 'whole' && at % 4 !== 0 && at < 250) continue; // some of the large one
        const bytes = Buffer.from(line);
        const place = random(bytes.length);
        bytes.writeUInt8(bytes.readUInt8(place) ^ (1 << random(8)), place);
        const altered = Buffer.concat([
          Buffer.from(textOf(lines.slice(0, at))),
          bytes,
          Buffer.from(`\n${textOf(lines.slice(at + 1))}`),
        ]);
        const { line: where } = await refused(`${name}: a bit in byte ${place} of line ${at + 1}`, altered);
        if (at > 0) expect(where).toBe(at + 1);
      }
    }
  });

  it('with many a bit flipped in the header', async () => {
    const random = dice(2);
    const [header = '', ...rest] = linesOf(late);
    for (let time = 0; time < 150; time++) {
      const bytes = Buffer.from(header);
      const place = random(bytes.length);
      bytes.writeUInt8(bytes.readUInt8(place) ^ (1 << random(8)), place);
      const altered = Buffer.concat([bytes, Buffer.from(`\n${textOf(rest)}`)]);
      await refused(`header: byte ${place}`, altered);
    }
  });

  it.each(['whole', 'late', 'owned'])('with any line deleted, duplicated or swapped: %s', async (which) => {
    const lines = linesOf({ whole, late, owned }[which] ?? '');
    for (const [at, line] of lines.entries()) {
      // Every line of the small ones, and some of the large one.
      if (which === 'whole' && at % 16 !== 0 && at < 250) continue;
      const [before, after] = [lines.slice(0, at), lines.slice(at + 1)];
      const { line: deleted } = await refused(
        `${which}: line ${at + 1} deleted`,
        textOf([...before, ...after]),
      );
      if (which !== 'owned') expect(deleted).toBe(at + 1);
      const { line: twice } = await refused(
        `${which}: line ${at + 1} twice`,
        textOf([...before, line, line, ...after]),
      );
      expect(twice).toBe(at + 2);
      const [next, ...others] = after;
      if (next === undefined) continue;
      const { line: swapped } = await refused(
        `${which}: lines ${at + 1} and ${at + 2} swapped`,
        textOf([...before, next, line, ...others]),
      );
      expect(swapped).toBe(which === 'owned' && at > 0 && next.startsWith('{"event"') ? at + 2 : at + 1);
    }
  });

  it('cut off after any line, or anywhere', async () => {
    const random = dice(3);
    const lines = linesOf(late);
    for (const at of lines.keys()) {
      const { line } = await refused(`${at} lines`, textOf(lines.slice(0, at)));
      expect(line).toBe(at + 1);
    }
    const bytes = Buffer.from(late);
    for (let time = 0; time < 60; time++) {
      const length = random(bytes.length - 1) + 1;
      await refused(`${length} bytes`, bytes.subarray(0, length));
    }
  });

  it('with lines of another log that has the same key', async () => {
    const [lines, others] = [linesOf(whole), linesOf(foreign)];
    for (const at of [0, 1, 17, 256, 257, 258, 260, 267]) {
      const { line } = await refused(
        `line ${at + 1} of another log`,
        textOf([...lines.slice(0, at), others[at] ?? '', ...lines.slice(at + 1)]),
      );
      if (at === 1 || at === 17) expect(line).toBe(258); // the proof of the block
    }
    const both = textOf([...lines.slice(0, 258), ...others.slice(258)]);
    expect(await refused('two logs in one', both)).toMatchObject({ line: 269, index: 256 });
  });

  it('with an event that was altered together with its hash', async () => {
    const lines = linesOf(whole);
    const forge = (at: number): string => {
      const line = parseLine(lines[at] ?? '');
      if (line?.kind !== 'event') throw new Error('no event');
      const leaf = line.leaf.replace('ficus', 'cactus');
      return eventLine({ leaf, hash: leafHash(Buffer.from(leaf)), index: line.index });
    };
    const altered = (at: number): string => textOf(lines.with(at, forge(at)));
    const at = lines.findIndex((line, index) => index > 40 && line.includes('ficus'));
    const inBlock = await refused('forged in a block', altered(at));
    expect(inBlock).toMatchObject({ line: 258, index: 0 });
    expect(inBlock.message).toContain(
      'one of the events 0 to 255 (lines 2 to 257) is not the one that was signed',
    );
    const last = lines.findLastIndex((line) => line.includes('ficus'));
    expect(await refused('forged at the end', altered(last))).toMatchObject({ line: 269, index: 256 });
    // An older bundle knows which.
    expect(await refused('forged, compared', altered(at), { previous: whole })).toMatchObject({
      line: at + 1,
      index: at - 1,
    });
  });

  it('with events taken out and the others renumbered', async () => {
    const lines = linesOf(whole);
    const renumbered = [...lines.slice(1, 30), ...lines.slice(31, 257)].map((line, index) => {
      const parsed = parseLine(line);
      return parsed?.kind === 'event' ? eventLine({ ...parsed, index }) : line;
    });
    const text = textOf([lines[0] ?? '', ...renumbered, endLine(255)]);
    expect(await refused('renumbered', text)).toMatchObject({ line: 257, index: 255 });
    const previous = await refused('renumbered, compared', text, { previous: oldBundle });
    expect(previous).toMatchObject({ line: 31, index: 29 });
  });

  it('with anything after its end, before it, or between its lines', async () => {
    for (const [name, text] of [
      ['garbage', `${late}x`],
      ['a line', `${late}{}\n`],
      ['an empty line', `${late}\n`],
      ['itself', late + late],
      ['NUL', `${late}\0`],
      ['a byte order mark', `\ufeff${late}`],
      ['carriage returns', late.replaceAll('\n', '\r\n')],
      ['an empty line first', `\n${late}`],
      ['nothing at all', ''],
      ['nothing but a newline', '\n'],
    ] as const)
      await refused(name, text);
  });

  it('by a wrong key, or with the checkpoint of another log', async () => {
    const wrong = await refused('a wrong key', whole, { key: newSigner() });
    expect(wrong).toMatchObject({
      line: 1,
      reason: expect.stringContaining('none of the known keys') as unknown,
    });
    await refused('a key of another name', whole, { key: newSigner('plants.example/other') });
    const [header = '', ...lines] = linesOf(whole);
    const parsed = JSON.parse(header) as { checkpoint: string };
    const swapped = header.replace(JSON.stringify(parsed.checkpoint), JSON.stringify(foreignNote));
    expect(swapped).not.toBe(header);
    const other = textOf([swapped, ...lines]);
    expect(await refused('the checkpoint of another log', other)).toMatchObject({ line: 258, index: 0 });
  });

  it('against a checkpoint that it does not go on from', async () => {
    expect(await refused('another log', whole, { against: foreignNote })).toMatchObject({ line: 1 });
    const rewritten = await AuditedLog.open(log.key);
    await rewritten.fill(OLD);
    const note = await rewritten.sign();
    const altered = await refused('rewritten', whole, { against: note });
    expect(altered).toMatchObject({ line: OLD + 1, index: OLD - 1 });
    const compared = await refused('rewritten, compared', whole, { previous: await rewritten.bundle() });
    expect(compared).toMatchObject({ line: 2, index: 0 });
    await rewritten.remove();
    const later = await refused('a later checkpoint', oldBundle, { against: foreignNote });
    expect(later.message).toContain(`is of size ${EVENTS}, and this one of ${OLD}`);
    expect((await refused('too late', late, { against: oldNote })).message).toContain('cannot be proven');
    expect((await refused('one owner', owned, { against: oldNote })).message).toContain('cannot be proven');
    const stranger = signNote(
      'somewhere.else\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n',
      newSigner(),
    );
    expect((await refused('no key', whole, { key: undefined, against: stranger })).line).toBe(1);
    for (const text of ['', 'x', 'a\n\nb\n', oldNote.slice(0, -1), oldNote.replace('\n100\n', '\n101\n')])
      expect((await refused('no checkpoint', whole, { against: text })).message).toMatch(
        /^the older checkpoint: /,
      );
  });

  it('beside an older bundle that is refused itself', async () => {
    const lines = linesOf(oldBundle);
    const previous = textOf(lines.toSpliced(5, 1));
    expect((await refused('older', whole, { previous })).message).toMatch(
      /^the older bundle: line 6, event 4: /,
    );
  });

  it('of an owner, beside an older one that has more of that owner', async () => {
    const older = await log.bundle({ owner: 'bob' });
    const lines = linesOf(older);
    const deleted = /"stream":"([^"]*)","type":"PlantDeleted"/.exec(older)?.[1] ?? '';
    const left = lines.slice(0, -1).filter((line) => !line.includes(`"stream":"${deleted}"`));
    const fewer = textOf([...left, endLine(left.length - 2)]);
    expect(await check('one left out', fewer)).not.toBeInstanceOf(BundleRefused); // a deleted plant's: nothing tells that
    expect((await refused('one left out', fewer, { previous: older })).message).toContain(
      'of the older bundle',
    );
  });
});

describe('what is hostile', () => {
  const header = () => linesOf(late)[0] ?? '';
  const eventWith = (leaf: string): string =>
    eventLine({ leaf, hash: leafHash(Buffer.from(leaf)), index: 250 });
  const event = (data: string): string =>
    `{"data":${data},"id":"i","metadata":{},"revision":0,"stream":"s","type":"t"}`;

  it.each<[string, string]>([
    ['keys that occur twice', event('{"a":1,"a":1}')],
    ['numbers that are too large', event('1e999')],
    ['numbers in another form', event('1.0')],
    ['numbers that lose precision', event('9007199254740993')],
    ['minus zero', event('-0')],
    ['no number', event('NaN')],
    ['white space', event('{"a": 1}')],
    ['another order of keys', event('{"b":1,"a":1}')],
    ['needless escapes', event('"\\u0041"')],
    ['a lone surrogate', event('"\\ud800"')],
    ['NUL', event('"\0"')],
    ['depth', event(`${'['.repeat(101)}${']'.repeat(101)}`)],
    ['great depth', event(`${'['.repeat(500_000)}${']'.repeat(500_000)}`)],
    ['depth that does not end', event('['.repeat(1_000_000))],
    ['another key', event('1,"extra":1')],
    ['another type', event('1').replace('"i"', '1')],
    ['another revision', event('1').replace(':0,', ':0.5,')],
    ['no object', '[]'],
    ['null', 'null'],
    ['nothing', ''],
  ])('is refused at its line: %s', async (name, json) => {
    const text = textOf([header(), eventWith(json)]);
    expect(await refused(name, text)).toMatchObject({ line: 2, index: 250 });
  });

  it.each<[string, string]>([
    [
      'all that JSON has',
      event('[1,-2.5,1e-7,1e+21,0.000001,100000000000000000000,true,null,"Φ\\n\\u0001\u2028\\"\\\\",{}]'),
    ],
    ['keys in the order of UTF-16', event('{"":0,"\\r":0,"1":0,"\u{1f602}":0,"\ufb33":0}')],
    ['depth within the limit', event(`${'['.repeat(100)}${']'.repeat(100)}`)],
    ['names that JavaScript knows', event('{"__proto__":1,"constructor":2,"toJSON":3}')],
  ])('is not what is canonical: %s', async (name, json) => {
    const text = textOf([header(), eventWith(json)]);
    expect(await refused(name, text)).toMatchObject({ line: 3, index: 251 }); // it is cut off after that
  });

  it('lines that do not end are given up', async () => {
    const long = Buffer.alloc(MAX_LINE_BYTES + 10, 'x');
    expect(await refused('long', long)).toMatchObject({ line: 1 });
    expect(
      await refused('long, after a good one', Buffer.concat([Buffer.from(`${header()}\n`), long])),
    ).toMatchObject({
      line: 2,
      reason: `the line is longer than ${MAX_LINE_BYTES} bytes`,
    });
    let read = 0;
    const endless = async function* () {
      for (; ; read += 1_000_000) {
        await Promise.resolve();
        yield Buffer.alloc(1_000_000, '[');
      }
    };
    const check = checkBundle(
      { bundle: endless, trust: trusting(), against: undefined, previous: undefined },
      () => undefined,
    );
    await expect(check).rejects.toThrow(BundleRefused);
    expect(read).toBeLessThan(10_000_000);
  });

  it('bytes of any kind are refused, and nothing else is thrown', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.boolean(), async (bytes, asHeader) => {
        const text = asHeader ? bytes : Buffer.concat([Buffer.from(`${header()}\n`), bytes]);
        expect(await verdictOf(text)).toBeInstanceOf(BundleRefused);
      }),
      { numRuns: 300 },
    );
  });

  it('bundles that were changed somehow pass only as they were', async () => {
    const lines = linesOf(late);
    const pieces = fc.constantFrom(
      ...[
        '{"event":',
        '"hash":',
        ',"index":250',
        '}',
        '{',
        '[',
        ']',
        '"',
        '\n',
        '\0',
        '9'.repeat(400),
        '1e9',
      ],
      ...[
        '"proof":[]',
        '{"block":0,"proof":[]}\n',
        '{"end":0}\n',
        '"before":[]',
        '"owner":"x"',
        '\\u0000',
        '\u{1f33f}',
      ],
      ...lines.map((line) => `${line}\n`),
    );
    const change = fc.record({ at: fc.nat(), remove: fc.nat(60), insert: fc.oneof(pieces, fc.constant('')) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(change, { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        async (changes, withKey) => {
          let text = late;
          for (const { at, remove, insert } of changes) {
            const place = at % text.length;
            text = text.slice(0, place) + insert + text.slice(place + remove);
          }
          const verdict = await verdictOf(text, { key: withKey ? log.key : undefined });
          if (text === late) expect(verdict).not.toBeInstanceOf(BundleRefused);
          // Without a key the name and the signature below the checkpoint may be anything.
          else if (withKey) expect(verdict).toBeInstanceOf(BundleRefused);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('a checkpoint with a state root', () => {
  /** The state after the first events of a bundle. */
  const stateOf = (text: string, events: number): Hash => {
    const state = new PlantsState();
    for (const line of linesOf(text)) {
      const parsed = parseLine(line);
      if (parsed?.kind !== 'event' || parsed.index >= events) continue;
      state.add(JSON.parse(parsed.leaf) as StateEvent);
    }
    return state.root() ?? EMPTY_ROOT;
  };
  const noteWith = (note: string, stateRoot: Hash): string =>
    signCheckpoint({ ...parseCheckpoint(parseNote(note).text), stateRoot }, log.key);
  /** The bundle with the checkpoint that also commits to this state. */
  const stating = (text: string, stateRoot: Hash): string =>
    restated(text, (note) => noteWith(note, stateRoot));
  const restated = (text: string, change: (note: string) => string): string =>
    text.replace(/"checkpoint":"(?:[^"\\]|\\.)*"/, (old) => {
      const { checkpoint: note } = JSON.parse(`{${old}}`) as { checkpoint: string };
      return `"checkpoint":${JSON.stringify(change(note))}`;
    });
  /** The note as a version of before signed it. */
  const withoutState = (note: string): string => {
    const { origin, size, root } = parseCheckpoint(parseNote(note).text);
    return signCheckpoint({ origin, size, root }, log.key);
  };
  const other = Buffer.alloc(32, 7);

  it('passes where the events come to it', async () => {
    const state = stateOf(whole, EVENTS);
    expect(await check('state', stating(whole, state))).toMatchObject({ isStateProven: true });
    expect(await check('state, of a part', stating(late, state))).toMatchObject({ isStateProven: false });
    expect(await check('state, of an owner', stating(owned, state))).toMatchObject({ isStateProven: false });
    const plain = restated(whole, withoutState);
    expect(await check('no state', plain)).toMatchObject({ isStateProven: undefined });
  });

  it('passes where the events have types that the checkers do not know', async () => {
    const { shapes } = JSON.parse(readFileSync('test/support/vectors/state-tree.json', 'utf8')) as {
      readonly shapes: readonly { readonly data: Json }[];
    };
    const newer = await AuditedLog.open();
    try {
      for (const [id, { data }] of shapes.entries()) {
        const events = [
          { type: 'PlantCreated', data: { id, name: 'n', tag: '' } },
          { type: 'PlantMoved', data },
        ];
        await newer.log.append(
          plantStream('bob', id),
          'none',
          events.map((event) => ({ ...event, id: randomUUID(), metadata: sampleMetadata() })),
        );
      }
      await newer.sign();
      const run = { bundle: Buffer.from(await newer.bundle()), key: formatVerifierKey(newer.key) };
      expect(await verdictOf(run.bundle, { key: newer.key })).toMatchObject({ isStateProven: true });
      const asked = { ...run, against: undefined };
      if (PYTHON) expect(checkByPython([asked])).toMatchObject([{ status: 0 }]);
    } finally {
      await newer.remove();
    }
  });

  it('is refused at the last line where they do not', async () => {
    const { message, line, index } = await refused('another state', stating(whole, other));
    expect({ line, index }).toEqual({ line: linesOf(whole).length, index: undefined });
    expect(message).toContain(`the state root of the checkpoint of size ${EVENTS}`);
    await refused('the state before', stating(whole, stateOf(whole, EVENTS - 1)));
  });

  it('is compared where it is an older one', async () => {
    const against = noteWith(oldNote, stateOf(whole, OLD));
    const plain = restated(whole, withoutState);
    expect(await check('older state', plain, { against })).toMatchObject({ isStateProven: undefined });
    const wrong = await refused('another older state', plain, { against: noteWith(oldNote, other) });
    expect(wrong.message).toContain(`the state root of the checkpoint of size ${OLD}`);
  });

  it('contradicts another one of the same events', async () => {
    const state = stateOf(whole, EVENTS);
    const { checkpoint: note } = JSON.parse(linesOf(whole)[0] ?? '') as { checkpoint: string };
    for (const text of [whole, late, owned])
      await refused('two states', stating(text, state), { against: noteWith(note, other) });
  });

  it('is refused where it is no hash, or there are two', async () => {
    const { text } = parseNote(oldNote);
    for (const lines of [
      'plants-state/v1 abc',
      'plants-state/v1 ',
      `plants-state/v1 ${other.toString('base64')}\nplants-state/v1 ${other.toString('base64')}`,
    ])
      await refused('malformed state', whole, { against: signNote(`${text}${lines}\n`, log.key) });
    await check('another extension', whole, { against: signNote(`${text}plants-stately\n`, log.key) });
  });
});

/** The other checkers take long: `npm test` asks them about one in ten, the lane `checkers` about all. */
const isAskedTwice = (_: unknown, at: number): boolean => ALL_CHECKED || at % 10 === 0;

describe('a bundle that is read from a stream', () => {
  it('has the same verdict, with the line and the event', async () => {
    for (const { name, run, verdict } of tried.filter((_, at) => at % 50 === 0)) {
      const expected =
        verdict instanceof BundleRefused
          ? { verdict: 'refused', reason: verdict.message, line: verdict.line, index: verdict.index }
          : { verdict: verdict.verdict, root: verdict.root, events: verdict.events };
      expect([name, await verifiedAsStream(run)]).toEqual([name, expect.objectContaining(expected)]);
    }
  });
});

describe('docs/check.py', () => {
  const here = PYTHON ? it : it.skip; // where there is no python3 or no openssl

  it('has no more than 300 lines', () => {
    expect(readFileSync('docs/check.py', 'utf8').split('\n').length - 1).toBeLessThanOrEqual(300);
  });

  here('says the same to all of these, and names the same line and event', () => {
    expect(tried.length).toBeGreaterThan(500);
    const packed = tried
      .filter((_, at) => at % 50 === 0)
      .map(({ name, run, verdict }) => ({
        name: `${name}, packed`,
        verdict,
        run: { ...run, bundle: gzipSync(run.bundle) },
      }));
    const all = [...tried.filter(isAskedTwice), ...packed];
    const verdicts = checkByPython(all.map(({ run }) => run));
    const differences = all.flatMap(({ name, verdict, run }, at) => {
      const { status, says } = verdicts[at] ?? { status: -1, says: '' };
      const mine =
        verdict instanceof BundleRefused
          ? `1 ${verdict.line ?? ''} ${verdict.index ?? ''}`
          : `0 ${run.key === undefined ? 'consistent' : 'proven'}`;
      const [, line = '', event = ''] = /^refused: (?:line (\d+)(?:, event (\d+))?: )?/.exec(says) ?? [];
      const its = status === 0 ? `0 ${/^\w+/.exec(says)?.[0] ?? ''}` : `${status} ${line} ${event}`;
      return mine === its
        ? []
        : [
            {
              name,
              mine: `${mine}: ${verdict instanceof BundleRefused ? verdict.message : ''}`,
              its: `${its}: ${says}`,
            },
          ];
    });
    expect(differences).toEqual([]);
  });

  here('refuses what is cut off or altered while it is packed', () => {
    const packed = gzipSync(late);
    const random = dice(4);
    const broken = Array.from({ length: 40 }, (_, time) => {
      if (time % 2 === 0) return packed.subarray(0, random(packed.length - 20) + 18);
      const altered = Buffer.from(packed);
      const place = 10 + random(packed.length - 10);
      altered.writeUInt8(altered.readUInt8(place) ^ (1 << random(8)), place);
      return altered;
    });
    const key = formatVerifierKey(log.key);
    for (const { status } of checkByPython(broken.map((bundle) => ({ bundle, key, against: undefined }))))
      expect(status).toBe(1);
  });
});

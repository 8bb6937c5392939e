import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LeafEvent, leafOf } from '../../../src/audit/leaf.js';
import { EventRefused } from '../../../src/domain/errors.js';
import { type Position } from '../../../src/log/event-log.js';

const EVENT: LeafEvent = {
  stream: 'plant-anne/7',
  revision: 3n,
  id: '5b1d0a3e-4c36-5d0c-9a36-0a9e4e1f9b11',
  type: 'PlantCreated',
  data: { id: 7, name: 'Monstera deliciosa', tag: 'aroid' },
  metadata: { schemaVersion: 1, decidedAt: '2026-01-31T12:00:00.000Z', actor: { sub: 'anne' } },
};

/** The canonical JSON of this data, as it is in the leaf of its event. */
const canonical = (data: unknown): string => {
  const leaf = leafOf({ ...EVENT, data }).toString('utf8');
  const rest = leafOf({ ...EVENT, data: null })
    .toString('utf8')
    .slice('{"data":null'.length);
  expect(leaf.startsWith('{"data":') && leaf.endsWith(rest)).toBe(true);
  return leaf.slice('{"data":'.length, -rest.length);
};

describe('the leaf of an event', () => {
  it('is its canonical JSON, without what differs between a log and its copy', () => {
    const recorded = { ...EVENT, position: '0000000000000042' as Position };
    expect(leafOf(recorded).toString('utf8')).toBe(
      '{"data":{"id":7,"name":"Monstera deliciosa","tag":"aroid"},' +
        '"id":"5b1d0a3e-4c36-5d0c-9a36-0a9e4e1f9b11",' +
        '"metadata":{"actor":{"sub":"anne"},"decidedAt":"2026-01-31T12:00:00.000Z","schemaVersion":1},' +
        '"revision":3,"stream":"plant-anne/7","type":"PlantCreated"}',
    );
  });

  it.each<[string, Partial<LeafEvent>]>([
    ['stream', { stream: 'plant-anne/8' }],
    ['revision', { revision: 4n }],
    ['id', { id: '5b1d0a3e-4c36-5d0c-9a36-0a9e4e1f9b12' }],
    ['type', { type: 'PlantDeleted' }],
    ['data', { data: { id: 7, name: 'Monstera deliciosa', tag: 'Aroid' } }],
    ['metadata', { metadata: { schemaVersion: 1, actor: { sub: 'anne' } } }],
  ])('is another one with another %s', (_, change) => {
    expect(leafOf({ ...EVENT, ...change })).not.toEqual(leafOf(EVENT));
  });

  it('holds text that is no JSON as the string that the log gives for it', () => {
    expect(canonical('{"id": 7')).toBe(String.raw`"{\"id\": 7"`);
  });

  it('is the same whatever the order of the keys, and reads back as the same JSON', () => {
    const wellFormed = fc.string({ unit: 'grapheme' });
    const { json } = fc.letrec((tie) => ({
      json: fc.oneof(
        { depthSize: 'small' },
        fc.constant(null),
        fc.boolean(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        wellFormed,
        fc.array(tie('json')),
        fc.array(fc.tuple(wellFormed, tie('json'))).map((entries) => Object.fromEntries(entries) as unknown),
      ),
    }));
    const reversed = (value: unknown): unknown => {
      if (typeof value !== 'object' || value === null) return value;
      if (Array.isArray(value)) return value.map(reversed);
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([key, inner]) => [key, reversed(inner)]),
      );
    };
    fc.assert(
      fc.property(json, (data) => {
        const text = canonical(data);
        expect(canonical(reversed(data))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(data)));
      }),
    );
  });
});

describe('RFC 8785', () => {
  const { cases } = JSON.parse(
    readFileSync(join(process.cwd(), 'test/support/vectors/rfc8785.json'), 'utf8'),
  ) as { cases: Record<string, { input: string; outhex: string }> };

  it.each(Object.entries(cases))('the published example "%s"', (_, { input, outhex }) => {
    expect(Buffer.from(canonical(JSON.parse(input)), 'utf8').toString('hex')).toBe(outhex);
  });

  // Appendix B
  it.each([
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'],
    ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ])('writes the number %s as %s', (ieee, text) => {
    expect(canonical(Buffer.from(ieee, 'hex').readDoubleBE())).toBe(text);
  });

  it('sorts keys by their UTF-16 code units, not by code points', () => {
    const keys = ['\ufb33', '\ud83d\ude02', '\u20ac', '\u0080', '1', '\r', 'A', 'a', ''];
    const sorted = ['', '\r', '1', 'A', 'a', '\u0080', '\u20ac', '\ud83d\ude02', '\ufb33'];
    const written = canonical(Object.fromEntries(keys.map((key) => [key, 0])));
    expect(written).toBe(`{${sorted.map((key) => `${JSON.stringify(key)}:0`).join(',')}}`);
  });

  it('keeps a key that JavaScript has a meaning for', () => {
    expect(canonical(JSON.parse('{"toJSON":1,"__proto__":{"b":2},"a":3}'))).toBe(
      '{"__proto__":{"b":2},"a":3,"toJSON":1}',
    );
  });
});

describe('an event is refused a leaf', () => {
  const nested = (levels: number): unknown => {
    let value: unknown = 0;
    for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { value };
    return value;
  };

  it.each<[string, Partial<LeafEvent>, string]>([
    ['a lone surrogate in a value', { data: { name: 'a\ud800' } }, 'no canonical JSON'],
    ['a lone surrogate in a key', { metadata: { 'a\udc00': 1 } }, 'no canonical JSON'],
    ['surrogates in the wrong order', { data: '\udc00\ud800' }, 'no canonical JSON'],
    ['a lone surrogate in its stream', { stream: 'plant-\ud800' }, 'no canonical JSON'],
    ['NaN', { data: { id: NaN } }, 'no canonical JSON'],
    ['infinity', { data: [-Infinity] }, 'no canonical JSON'],
    ['a bigint', { data: { id: 1n } }, 'no canonical JSON'],
    ['no data', { data: undefined }, 'it has no data'],
    ['no metadata', { metadata: undefined }, 'it has no metadata'],
    ['a revision above 2^53 - 1', { revision: 2n ** 53n }, 'a leaf has revisions from 0 to 2^53 - 1 only'],
    ['a negative revision', { revision: -1n }, 'a leaf has revisions from 0 to 2^53 - 1 only'],
    ['values nested too deep', { data: nested(101) }, 'it has no canonical JSON: nested too deep'],
    ['a hostile depth', { metadata: nested(1_000_000) }, 'it has no canonical JSON: nested too deep'],
  ])('for %s', (_, change, reason) => {
    const event = { ...EVENT, ...change };
    let refusal: unknown;
    try {
      leafOf(event);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toBeInstanceOf(EventRefused);
    expect(refusal).toMatchObject({ stream: event.stream, revision: event.revision });
    expect((refusal as EventRefused).reason).toContain(reason);
  });

  it('but not at the limits', () => {
    expect(leafOf({ ...EVENT, data: nested(100) }).length).toBeGreaterThan(0);
    expect(leafOf({ ...EVENT, revision: 2n ** 53n - 1n }).toString('utf8')).toContain(
      '"revision":9007199254740991,',
    );
  });
});

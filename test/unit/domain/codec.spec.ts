import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { decode, encode, type Fact, type StoredEvent, versionOf } from '../../../src/domain/codec.js';
import { EventRefused } from '../../../src/domain/errors.js';
import { type PlantCreated } from '../../../src/domain/plant.js';
import { idFault, nameFault, tagFault } from '../../../src/domain/fields.js';
import { plantStream, requestStream } from '../../../src/domain/stream.js';
import { UPCASTERS, type Upcasters } from '../../../src/domain/upcasters.js';
import { anyName, anyString, anyTag } from '../../support/domain-model.js';
import { created, deleted } from '../../support/given.js';

const METADATA = {
  schemaVersion: 1,
  decidedAt: '2026-01-31T12:00:00.000Z',
  actor: { sub: 'anne' },
  correlationId: 'c',
  causationId: 'd',
};

/** An event as a log gives it back: JSON that was written and read again. */
const stored = (changes: Partial<StoredEvent> = {}): StoredEvent => {
  const event = {
    stream: 'plant-anne/7',
    revision: 3n,
    type: 'PlantCreated',
    data: { id: 7, name: 'Monstera deliciosa', tag: 'aroid' },
    metadata: METADATA,
    ...changes,
  };
  return { ...event, data: reread(event.data), metadata: reread(event.metadata) };
};

const reread = (json: unknown): unknown => JSON.parse(JSON.stringify(json));

const refusalOf = (event: StoredEvent): EventRefused => {
  try {
    decode(event);
  } catch (error) {
    expect(error).toBeInstanceOf(EventRefused);
    return error as EventRefused;
  }
  throw new Error('the codec let it pass');
};

const REQUEST = requestStream('anne', 'c0ffee');
const ACCEPTED = {
  stream: REQUEST,
  type: 'RequestAccepted',
  data: { fingerprint: 'f', commandId: 'c', firstRevision: 0 },
};

describe('the codec', () => {
  it.each<[Fact['event'], string, Partial<Fact>]>([
    [created(7), plantStream('anne', 7), { kind: 'plant', owner: 'anne' }],
    [created(-7, 'x', ''), plantStream('a/b', -7), { kind: 'plant', owner: 'a/b' }],
    [deleted(0), plantStream('', 0), { kind: 'plant', owner: '' }],
    [
      { type: 'RequestAccepted', data: { fingerprint: 'f', commandId: 'c', firstRevision: 0 } },
      REQUEST,
      { kind: 'request' },
    ],
  ])('reads what was written: %j', (event, stream, of) => {
    const { type } = event;
    const metadata = { ...METADATA, schemaVersion: versionOf(type) };
    const fact = decode(stored({ stream, type, data: encode(event), metadata }));
    expect(fact).toEqual({ ...of, event });
  });

  it("gives every plant's event back exactly as it was decided", () => {
    fc.assert(
      fc.property(
        anyString,
        fc.maxSafeInteger(),
        anyName,
        anyTag,
        fc.boolean(),
        (owner, id, name, tag, there) => {
          const event = there ? created(id, name, tag) : deleted(id);
          const data = encode(event);
          expect(decode(stored({ ...event, data, stream: plantStream(owner, id) }))).toEqual({
            kind: 'plant',
            owner,
            event,
          });
        },
      ),
    );
  });

  it('minds nothing else in the metadata', () => {
    expect(decode(stored({ metadata: { schemaVersion: 1, more: [null] } }))).toMatchObject({ owner: 'anne' });
  });

  it('says where a refused event stands and why it is refused', () => {
    const refusal = refusalOf(stored({ type: 'PlantWatered' }));
    expect(refusal).toMatchObject({
      name: 'EventRefused',
      stream: 'plant-anne/7',
      revision: 3n,
      reason: 'unknown type "PlantWatered"',
      message: 'event 3 of stream plant-anne/7 is refused: unknown type "PlantWatered"',
    });
  });

  describe.each([
    'PlantWatered',
    'plantcreated',
    '',
    'constructor',
    '__proto__',
    'toString',
    'hasOwnProperty',
    'x\ny',
  ])('an event of type %j', (type) => {
    it('is refused', () => {
      expect(refusalOf(stored({ type })).reason).toBe(`unknown type ${JSON.stringify(type)}`);
    });
  });

  it('shows the beginning only of a type that is very long', () => {
    const { reason } = refusalOf(stored({ type: 'x'.repeat(10_000) }));
    expect(reason).toBe(`unknown type "${'x'.repeat(80)}…"`);
  });

  const NO_VERSION = 'its metadata has no schemaVersion';
  it.each<[string, unknown, string]>([
    ['none', null, NO_VERSION],
    ['no version', { decidedAt: 'x' }, NO_VERSION],
    ['text that is no JSON', '{"schemaVersion":1', NO_VERSION],
    ['a list', [1], NO_VERSION],
    ['a version as text', { schemaVersion: '1' }, NO_VERSION],
    ['version 0', { schemaVersion: 0 }, NO_VERSION],
    ['version -1', { schemaVersion: -1 }, NO_VERSION],
    ['version 1.5', { schemaVersion: 1.5 }, NO_VERSION],
    ['version null', { schemaVersion: null }, NO_VERSION],
    ['a version of tomorrow', { schemaVersion: 2 }, 'unknown version 2 of PlantCreated'],
    ['a version far away', { schemaVersion: 1e308 }, 'unknown version 1e+308 of PlantCreated'],
  ])('refuses metadata with %s', (_name, metadata, reason) => {
    expect(refusalOf(stored({ metadata })).reason).toBe(reason);
  });

  it('calls garbage so, also where it has no metadata', () => {
    expect(refusalOf(stored({ data: 'garbage', metadata: null })).reason).toBe(
      'its data is not a JSON object',
    );
  });

  const created7 = { id: 7, name: 'Monstera deliciosa', tag: 'aroid' };
  const without = (name: string) =>
    Object.fromEntries(Object.entries(created7).filter(([key]) => key !== name));
  it.each<[string, unknown, string]>([
    ['text that is no JSON', '{"id":7', 'its data is not a JSON object'],
    ['null', null, 'its data is not a JSON object'],
    ['a list', [created7], 'its data is not a JSON object'],
    ['a number', 7, 'its data is not a JSON object'],
    ['an extra field', { ...created7, colour: 'green' }, 'unknown field "colour"'],
    ['no id', without('id'), 'id must be an integer'],
    ['no name', without('name'), 'name must be a string'],
    ['no tag', without('tag'), 'tag must be a string'],
    ['an id as text', { ...created7, id: '7' }, 'id must be an integer'],
    ['an id with a fraction', { ...created7, id: 7.5 }, 'id must be an integer, without a fraction'],
    [
      'an id too great',
      { ...created7, id: 2 ** 53 },
      'id must be between -9007199254740991 and 9007199254740991',
    ],
    ['a name that is null', { ...created7, name: null }, 'name must be a string'],
    ['an empty name', { ...created7, name: '' }, 'name must not be empty'],
    ['a long name', { ...created7, name: 'x'.repeat(201) }, 'name must be at most 200 characters long'],
    ['a long tag', { ...created7, tag: '🪴'.repeat(201) }, 'tag must be at most 200 characters long'],
    [
      'a control character',
      { ...created7, tag: 'a\nb' },
      'tag must not hold control characters: U+000A at character 2',
    ],
    [
      'a lone surrogate',
      { ...created7, name: '\uD83E' },
      'name must be well-formed Unicode: it holds a lone surrogate',
    ],
    ["an id that is not its stream's", { ...created7, id: 8 }, 'its id 8 is not the one of its stream'],
  ])('refuses a created plant whose data is or has %s', (_name, data, reason) => {
    expect(refusalOf(stored({ data })).reason).toBe(reason);
  });

  it('refuses a field that JSON puts where JavaScript has its prototype', () => {
    const data: unknown = JSON.parse('{"id":7,"name":"Monstera","tag":"","__proto__":{"id":7}}');
    expect(refusalOf({ ...stored(), data }).reason).toBe('unknown field "__proto__"');
  });

  it.each<[string, unknown, string]>([
    ['a name', { id: 7, name: 'Monstera' }, 'unknown field "name"'],
    ['no id', {}, 'id must be an integer'],
    ["another plant's id", { id: -7 }, 'its id -7 is not the one of its stream'],
  ])('refuses a deleted plant with %s', (_name, data, reason) => {
    expect(refusalOf(stored({ type: 'PlantDeleted', data })).reason).toBe(reason);
  });

  it.each([
    ['request-anne/7', 'a PlantCreated belongs in a stream that begins with plant-'],
    ['order-7', 'a PlantCreated belongs in a stream that begins with plant-'],
    ['plant-anne', 'the name of its stream is not one of a plant'],
    ['plant-anne/07', 'the name of its stream is not one of a plant'],
    ['plant-%zz/7', 'the name of its stream is not one of a plant'],
    ['plant-anne/8', 'its id 7 is not the one of its stream'],
  ])('refuses a plant in the stream %s', (stream, reason) => {
    const refusal = refusalOf(stored({ stream }));
    expect(refusal.reason).toBe(reason);
    expect(refusal.stream).toBe(stream);
  });

  it.each<[Fact['event']['type'], Record<string, unknown>, string]>([
    ['RebuildRequested', { rebuild: 'r', rate: 0, unskip: false }, 'rate must be a positive integer'],
    ['RebuildRequested', { rebuild: 'r', rate: 1.5, unskip: false }, 'rate must be a positive integer'],
    ['RebuildRequested', { rebuild: 'r', rate: null, unskip: 'no' }, 'unskip must be true or false'],
    ['RebuildRequested', { rebuild: 'r', rate: null }, 'unskip must be true or false'],
    ['RebuildStarted', { rebuild: 'r', generation: '2' }, 'generation must be a positive integer'],
    ['RebuildPromoted', { rebuild: 'r', generation: 2, replaced: 0 }, 'replaced must be a positive integer'],
    ['RolledBack', { rebuild: 'r', generation: 1, replaced: null }, 'replaced must be a positive integer'],
  ])('refuses a %s with %j', (type, data, reason) => {
    expect(refusalOf(stored({ stream: 'operation-rebuilds', type, data })).reason).toBe(reason);
  });

  it('reads that a rebuild has replaced nothing', () => {
    const data = { rebuild: 'r', generation: 2, replaced: null };
    expect(
      decode(stored({ stream: 'operation-rebuilds', type: 'RebuildPromoted', data })).event.data,
    ).toEqual(data);
  });

  it.each<[string, Partial<StoredEvent>, string]>([
    [
      'in a stream of plants',
      { ...ACCEPTED, stream: 'plant-anne/7' },
      'a RequestAccepted belongs in a stream that begins with request-',
    ],
    [
      'without a fingerprint',
      { ...ACCEPTED, data: { commandId: 'c', firstRevision: 0 } },
      'fingerprint must be a string that is not empty',
    ],
    [
      'with an empty command id',
      { ...ACCEPTED, data: { ...ACCEPTED.data, commandId: '' } },
      'commandId must be a string that is not empty',
    ],
    [
      'without a first revision',
      { ...ACCEPTED, data: { fingerprint: 'f', commandId: 'c' } },
      'firstRevision must be an integer that is not negative',
    ],
    [
      'with a first revision below 0',
      { ...ACCEPTED, data: { ...ACCEPTED.data, firstRevision: -1 } },
      'firstRevision must be an integer that is not negative',
    ],
    ['with more', { ...ACCEPTED, data: { ...ACCEPTED.data, key: 'k' } }, 'unknown field "key"'],
    ['of version 2', { ...ACCEPTED, metadata: { schemaVersion: 2 } }, 'unknown version 2 of RequestAccepted'],
    [
      'in a stream of plants',
      { ...ACCEPTED, stream: 'plant-anne/7' },
      'a RequestAccepted belongs in a stream that begins with request-',
    ],
  ])('refuses a request %s', (_name, changes, reason) => {
    expect(refusalOf(stored(changes)).reason).toBe(reason);
  });

  it('throws nothing but its refusal, whatever it is given', () => {
    const anything = fc.oneof(
      fc.jsonValue(),
      fc.anything({ withNullPrototype: true, withBigInt: true, withDate: true, withMap: true }),
    );
    const anyType = fc.oneof(
      fc.constantFrom('PlantCreated', 'PlantDeleted', 'RequestAccepted', '__proto__'),
      anyString,
    );
    const anyData = fc.oneof(
      anything,
      fc.record(
        { id: fc.oneof(fc.integer({ min: 0, max: 2 }), anything), name: anything, tag: anything },
        { requiredKeys: [] },
      ),
    );
    const anyStream = fc.oneof(fc.constantFrom('plant-a/1', 'request-a/1', 'plant-a'), anyString);
    const anyMetadata = fc.oneof(
      fc.constant({ schemaVersion: 1 }),
      fc.record({ schemaVersion: anything }),
      anything,
    );
    fc.assert(
      fc.property(anyStream, anyType, anyData, anyMetadata, (stream, type, data, metadata) => {
        try {
          expect(decode({ stream, revision: 0n, type, data, metadata }).event.type).toBe(type);
        } catch (error) {
          expect(error).toBeInstanceOf(EventRefused);
          expect((error as EventRefused).stream).toBe(stream);
          expect((error as EventRefused).reason).not.toBe('');
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it.each(Object.entries(UPCASTERS))(
    'writes a %s in a version that it reads, or not at all',
    (_type, { written, versions }) => {
      expect([false, ...versions.map((_version, index) => index + 1)]).toContain(written);
    },
  );
});

/** PlantCreated with a second version, which calls its name a label; `written` is the one that is written. */
const withLabels = (written: number | false): Upcasters => {
  const id = idFault;
  const tag = tagFault;
  return {
    ...UPCASTERS,
    PlantCreated: {
      ...UPCASTERS.PlantCreated,
      written,
      versions: [
        {
          fields: { id, label: nameFault, tag },
          upcast: ({ label, ...data }) => ({ ...data, name: label }),
          downcast: ({ name: label, ...data }: PlantCreated['data']) => ({ ...data, label }),
        },
        { fields: { id, name: nameFault, tag } },
      ],
    },
  };
};

describe('two versions of an event', () => {
  const newest = {
    data: { id: 7, name: 'Monstera deliciosa', tag: 'aroid' },
    metadata: { schemaVersion: 2 },
  };
  const older = {
    data: { id: 7, label: 'Monstera deliciosa', tag: 'aroid' },
    metadata: { schemaVersion: 1 },
  };

  it('are read, and none is written, in a release that knows the type and does not use it yet', () => {
    const upcasters = withLabels(false);
    for (const version of [older, newest])
      expect(decode(stored(version), upcasters)).toMatchObject({ event: created(7) });
    expect(() => versionOf('PlantCreated', upcasters)).toThrow('reads events of the type PlantCreated');
    expect(() => encode(created(7), upcasters)).toThrow('and writes none');
  });

  it.each([
    ['the release that reads the newest one first', withLabels(1), older],
    ['the release after it', withLabels(2), newest],
  ])('are both read, and one is written, in %s', (_name, upcasters, written) => {
    const event = created(7);
    expect(encode(event, upcasters)).toEqual(written.data);
    expect(versionOf(event.type, upcasters)).toBe(written.metadata.schemaVersion);
    for (const version of [older, newest])
      expect(decode(stored(version), upcasters)).toEqual({ kind: 'plant', owner: 'anne', event });
  });

  it('have fields of their own', () => {
    const swapped = stored({ ...newest, metadata: older.metadata });
    expect(() => decode(swapped, withLabels(1))).toThrow('unknown field "name"');
  });
});

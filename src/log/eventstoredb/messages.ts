import { type ResolvedEvent } from '@eventstore/db-client';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import protobuf from 'protobufjs/minimal.js';
import { type EventText, parsed } from '../stored-text.js';
import { type LogPosition } from './position.js';

type Reader = protobuf.Reader;
type Writer = protobuf.Writer;

export interface AppendOrder {
  readonly stream: string;
  readonly expected: bigint | 'none';
  readonly events: readonly EventText[];
}

/** The position of an append's last event. The server may not know that of a repeated append. */
export interface Answer {
  readonly revision: bigint;
  readonly position: LogPosition | undefined;
}

/** Of an event that was read, what is used. */
export type ReadEvent = Pick<
  NonNullable<ResolvedEvent['event']>,
  'streamId' | 'revision' | 'id' | 'type' | 'position'
> & {
  /** Parsed JSON; the text where it is none. */
  readonly data: unknown;
  /** As `data`; undefined where there is none. */
  readonly metadata: unknown;
};

/** A message of a read: an event, or something else, such as a checkpoint. */
export interface Sent {
  readonly event: ReadEvent | undefined;
}

/** The answer to an append: what was written, or the library's message, which says why not. */
export type BatchAnswer = { readonly id: string } & (
  | { readonly written: Answer }
  | { readonly refused: streams.BatchAppendResp }
);

/*
 * Messages of the two calls that carry each event, written and read by hand as streams.proto of EventStoreDB defines
 * them: the client's own classes take five times the processor time. A tag is a field's number and its wire type
 * (https://protobuf.dev/programming-guides/encoding/).
 */
const numberTag = (field: number): number => field << 3;
const lengthTag = (field: number): number => (field << 3) | 2;
const wireTypeOf = (tag: number): number => tag & 7;

const JSON_TYPE = 'application/json';

/** A BatchAppendReq for one append. `id` is sent back with its answer. */
export const encodeAppend = (id: string, { stream, expected, events }: AppendOrder): Buffer => {
  const writer = protobuf.Writer.create();
  writeUuid(writer.uint32(lengthTag(1)), id);
  writer.uint32(lengthTag(2)).fork();
  writer.uint32(lengthTag(1)).fork().uint32(lengthTag(3)).string(stream).ldelim();
  if (expected === 'none') writer.uint32(lengthTag(3)).fork().ldelim();
  else writer.uint32(numberTag(2)).uint64(Number(expected)); // at most Number.MAX_SAFE_INTEGER
  // No deadline: it would be a time of day, and clocks differ. The server has one of its own.
  writer.ldelim();
  for (const event of events) {
    writer.uint32(lengthTag(3)).fork();
    writeUuid(writer.uint32(lengthTag(1)), event.id);
    writeEntry(writer.uint32(lengthTag(2)), 'type', event.type);
    writeEntry(writer.uint32(lengthTag(2)), 'content-type', JSON_TYPE);
    writer.uint32(lengthTag(3)).string(event.metadata);
    writer.uint32(lengthTag(4)).string(event.data).ldelim();
  }
  return writer.uint32(numberTag(4)).bool(true).finish() as Buffer;
};

const writeUuid = (writer: Writer, id: string): Writer =>
  writer.fork().uint32(lengthTag(2)).string(id).ldelim();

const writeEntry = (writer: Writer, key: string, value: string): Writer =>
  writer.fork().uint32(lengthTag(1)).string(key).uint32(lengthTag(2)).string(value).ldelim();

/** Reads a BatchAppendResp. Throws Error for what is none. */
export const decodeAnswer = (bytes: Buffer): BatchAnswer => {
  const reader = protobuf.Reader.create(bytes);
  let id = '';
  let written: Answer | undefined;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === lengthTag(1)) id = textIn(reader, lengthTag(2));
    else if (tag === lengthTag(3)) written = readSuccess(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  return written ? { id, written } : { id, refused: streams.BatchAppendResp.deserializeBinary(bytes) };
};

const readSuccess = (reader: Reader): Answer => {
  let revision = 0n;
  let position: LogPosition | undefined;
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === numberTag(1)) revision = readUint64(reader);
    else if (tag === lengthTag(3)) position = readPosition(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  return { revision, position };
};

const readPosition = (reader: Reader): LogPosition => {
  let commit = 0n;
  let prepare = 0n;
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === numberTag(1)) commit = readUint64(reader);
    else if (tag === numberTag(2)) prepare = readUint64(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  return { commit, prepare };
};

/** Reads a ReadResp. Throws Error for what is none. */
export const decodeSent = (bytes: Buffer): Sent => {
  const reader = protobuf.Reader.create(bytes);
  let event: ReadEvent | undefined;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === lengthTag(1)) event = readEvent(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  return { event };
};

/** Reads a ReadEvent; links are not resolved, so there is always an event. */
const readEvent = (reader: Reader): ReadEvent | undefined => {
  let event: ReadEvent | undefined;
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === lengthTag(1)) event = readRecorded(reader);
    else reader.skipType(wireTypeOf(tag));
  }
  return event;
};

const readRecorded = (reader: Reader): ReadEvent => {
  let id = '';
  let streamId = '';
  let type = '';
  let data = '';
  let metadata = '';
  let isJson = false;
  let revision = 0n;
  let prepare = 0n;
  let commit = 0n;
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === lengthTag(1)) id = textIn(reader, lengthTag(2));
    else if (tag === lengthTag(2)) streamId = textIn(reader, lengthTag(3));
    else if (tag === numberTag(3)) revision = readUint64(reader);
    else if (tag === numberTag(4)) prepare = readUint64(reader);
    else if (tag === numberTag(5)) commit = readUint64(reader);
    else if (tag === lengthTag(6)) {
      const { key, value } = readEntry(reader);
      if (key === 'type') type = value;
      else if (key === 'content-type') isJson = value === JSON_TYPE;
    } else if (tag === lengthTag(7)) metadata = reader.string();
    else if (tag === lengthTag(8)) data = reader.string();
    else reader.skipType(wireTypeOf(tag));
  }
  return {
    streamId,
    revision,
    id,
    type,
    position: { commit, prepare },
    data: isJson ? parsed(data) : data,
    metadata: metadata === '' ? undefined : parsed(metadata),
  };
};

const readEntry = (reader: Reader): { key: string; value: string } => {
  let key = '';
  let value = '';
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === lengthTag(1)) key = reader.string();
    else if (tag === lengthTag(2)) value = reader.string();
    else reader.skipType(wireTypeOf(tag));
  }
  return { key, value };
};

/** The text of one field of a message. */
const textIn = (reader: Reader, wanted: number): string => {
  let text = '';
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === wanted) text = reader.string();
    else reader.skipType(wireTypeOf(tag));
  }
  return text;
};

/** Reads a message's length, and returns the index of its end. */
const endOf = (reader: Reader): number => {
  const length = reader.uint32();
  return reader.pos + length;
};

const readUint64 = (reader: Reader): bigint => {
  const { low, high } = reader.uint64();
  return high === 0 ? BigInt(low >>> 0) : (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
};

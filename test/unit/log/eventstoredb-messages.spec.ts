import { describe, expect, it } from '@jest/globals';
import { convertGrpcEvent } from '@eventstore/db-client/dist/utils/convertGrpcEvent.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import status from '@eventstore/db-client/generated/status_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import empty from 'google-protobuf/google/protobuf/empty_pb.js';
import { decodeAnswer, decodeSent, encodeAppend } from '../../../src/log/eventstoredb/messages.js';

const ID = '5c1f0e6f-53b5-4b4e-8a57-3f0d3f5c2f57';
const OTHER_ID = '0b0c7a52-3a8b-4d3f-9f57-6f1f7f9a2c11';
const STREAM = 'plant-Zo%C3%AB/1';

/** Numbers at the edges of what the encoding has a form of its own for. */
const NUMBERS = [0n, 1n, 127n, 128n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n, 2n ** 64n - 1n];

const bytesOf = (message: { serializeBinary(): Uint8Array }): Buffer =>
  Buffer.from(message.serializeBinary());

const recorded = (): streams.ReadResp.ReadEvent.RecordedEvent => {
  const event = new streams.ReadResp.ReadEvent.RecordedEvent()
    .setId(new shared.UUID().setString(ID))
    .setStreamIdentifier(new shared.StreamIdentifier().setStreamName(Buffer.from(STREAM)))
    .setStreamRevision('7')
    .setCommitPosition('4294967296')
    .setPreparePosition('12')
    .setData(Buffer.from('{"name":"Zoë’s 木 \\u0000"}'))
    .setCustomMetadata(Buffer.from('{"a":[1]}'));
  event
    .getMetadataMap()
    .set('type', 'PlantCreated')
    .set('content-type', 'application/json')
    .set('created', '17000000000000000');
  return event;
};

const sent = (event: streams.ReadResp.ReadEvent.RecordedEvent): streams.ReadResp =>
  new streams.ReadResp().setEvent(
    new streams.ReadResp.ReadEvent().setEvent(event).setCommitPosition('4294967296'),
  );

/** A message as the client library converts it. */
const byLibrary = (message: streams.ReadResp): unknown => {
  const { event } = convertGrpcEvent(message.getEvent() ?? new streams.ReadResp.ReadEvent());
  if (!event) throw new Error('the message holds no event');
  const { streamId, revision, id, type, data, metadata, position } = event;
  const text = (value: unknown): unknown =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : value;
  return { streamId, revision, id, type, position, data: text(data), metadata: text(metadata) };
};

describe('a message of EventStoreDB that is written by hand', () => {
  it.each(['none', ...NUMBERS.slice(0, 7), BigInt(Number.MAX_SAFE_INTEGER)] as const)(
    'is what the library reads as an append at %s',
    (expected) => {
      const events = [
        { id: ID, type: 'PlantCreated', data: '{"name":"Zoë’s 木"}', metadata: '{}' },
        { id: OTHER_ID, type: 'PlantDeleted', data: '{}', metadata: `{"a":"${'x'.repeat(300)}"}` },
      ];
      const request = streams.BatchAppendReq.deserializeBinary(
        encodeAppend(OTHER_ID, { stream: STREAM, expected, events }),
      );
      const options = request.getOptions();
      expect(request.getCorrelationId()?.getString()).toBe(OTHER_ID);
      expect(request.getIsFinal()).toBe(true);
      expect(Buffer.from(options?.getStreamIdentifier()?.getStreamName_asU8() ?? []).toString()).toBe(STREAM);
      expect(options?.hasNoStream()).toBe(expected === 'none');
      expect(options?.hasStreamPosition()).toBe(expected !== 'none');
      if (expected !== 'none') expect(options?.getStreamPosition()).toBe(String(expected));
      expect(options?.hasDeadline()).toBe(false);
      expect(
        request.getProposedMessagesList().map((message) => ({
          id: message.getId()?.getString(),
          type: message.getMetadataMap().get('type'),
          data: Buffer.from(message.getData_asU8()).toString(),
          metadata: Buffer.from(message.getCustomMetadata_asU8()).toString(),
        })),
      ).toEqual(events);
      for (const message of request.getProposedMessagesList())
        expect(message.getMetadataMap().get('content-type')).toBe('application/json');
    },
  );
});

describe('a message of EventStoreDB that is read by hand', () => {
  it('is the event that the library reads', () => {
    const message = sent(recorded());
    const { event } = decodeSent(bytesOf(message));
    expect(event).toEqual(byLibrary(message));
    expect(event?.data).toEqual({ name: 'Zoë’s 木 \0' });
  });

  it.each([
    ['data that is no JSON', () => recorded().setData(Buffer.from('{'))],
    ['no data', () => recorded().setData('')],
    ['metadata that is no JSON', () => recorded().setCustomMetadata(Buffer.from('no'))],
    ['no metadata', () => recorded().setCustomMetadata('')],
    ['bytes that are no UTF-8', () => recorded().setData(Buffer.from([0x22, 0xff, 0x22]))],
    [
      'another content type',
      () => {
        const event = recorded();
        event.getMetadataMap().set('content-type', 'application/octet-stream');
        return event;
      },
    ],
  ])('is the event that the library reads: %s', (_, event) => {
    const message = sent(event());
    expect(decodeSent(bytesOf(message)).event).toEqual(byLibrary(message));
  });

  it.each(NUMBERS)('keeps the number %s', (number) => {
    const event = recorded().setStreamRevision(String(number)).setPreparePosition(String(number));
    expect(decodeSent(bytesOf(sent(event))).event).toMatchObject({
      revision: number,
      position: { prepare: number, commit: 2n ** 32n },
    });
  });

  it.each([
    ['a checkpoint', new streams.ReadResp().setCheckpoint(new streams.ReadResp.Checkpoint())],
    ['that it has caught up', new streams.ReadResp().setCaughtUp(new streams.ReadResp.CaughtUp())],
    ['nothing', new streams.ReadResp()],
  ])('is no event where it says %s', (_, message) => {
    expect(decodeSent(bytesOf(message))).toEqual({ event: undefined });
  });

  it('passes over fields of a later version', () => {
    const unknown = Buffer.from([0xfa, 0x06, 0x02, 0x01, 0x02, 0xf8, 0x06, 0x2a]); // fields 111, of both forms
    expect(decodeSent(Buffer.concat([unknown, bytesOf(sent(recorded())), unknown])).event?.id).toBe(ID);
    const success = new streams.BatchAppendResp.Success().setCurrentRevision('3');
    const answer = new streams.BatchAppendResp().setSuccess(success);
    expect(decodeAnswer(Buffer.concat([unknown, bytesOf(answer)]))).toMatchObject({
      written: { revision: 3n },
    });
  });

  it('is refused where it ends early', () => {
    const bytes = bytesOf(sent(recorded()));
    expect(() => decodeSent(bytes.subarray(0, bytes.length - 3))).toThrow();
  });

  it.each(NUMBERS)('tells at which revision an append was written: %s', (number) => {
    const success = new streams.BatchAppendResp.Success()
      .setCurrentRevision(String(number))
      .setPosition(new shared.AllStreamPosition().setCommitPosition(String(number)).setPreparePosition('5'));
    const answer = new streams.BatchAppendResp()
      .setCorrelationId(new shared.UUID().setString(ID))
      .setStreamIdentifier(new shared.StreamIdentifier().setStreamName(Buffer.from(STREAM)))
      .setNoStream(new empty.Empty())
      .setSuccess(success);
    expect(decodeAnswer(bytesOf(answer))).toEqual({
      id: ID,
      written: { revision: number, position: { commit: number, prepare: 5n } },
    });
  });

  it('leaves an append that was refused to the library', () => {
    const refused = new streams.BatchAppendResp()
      .setCorrelationId(new shared.UUID().setString(ID))
      .setError(new status.Status().setMessage('no'));
    const answer = decodeAnswer(bytesOf(refused));
    expect(answer.id).toBe(ID);
    expect('refused' in answer && answer.refused.getError()?.getMessage()).toBe('no');
  });
});

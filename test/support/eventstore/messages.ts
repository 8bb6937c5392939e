import shared from '@eventstore/db-client/generated/shared_pb.js';
import status from '@eventstore/db-client/generated/status_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import any from 'google-protobuf/google/protobuf/any_pb.js';
import { type BatchErrorName } from './failure.js';
import {
  type AppendResult,
  type Expected,
  type LogPosition,
  type ProposedEvent,
  type StoredEvent,
} from './store.js';

const JSON_CONTENT = 'application/json';
const OTHER_CONTENT = 'application/octet-stream';

export function streamNameOf(identifier: shared.StreamIdentifier | undefined): string {
  return Buffer.from(identifier?.getStreamName_asU8() ?? []).toString();
}

function identifierOf(stream: string): shared.StreamIdentifier {
  return new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
}

const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/u;
const NO_UUID = '00000000-0000-0000-0000-000000000000';

/** A proposed event; undefined if it is none that the server takes. */
export function proposedEventOf(message: streams.BatchAppendReq.ProposedMessage): ProposedEvent | undefined {
  const properties = message.getMetadataMap();
  const type = properties.get('type');
  const id = message.getId()?.getString().toLowerCase() ?? '';
  if (!type || !UUID.test(id) || id === NO_UUID) return undefined;
  return {
    id,
    type,
    isJson: properties.get('content-type') === JSON_CONTENT,
    data: message.getData_asU8(),
    metadata: message.getCustomMetadata_asU8(),
  };
}

export function expectedOf(
  options: streams.BatchAppendReq.Options | streams.DeleteReq.Options | streams.TombstoneReq.Options,
): Expected {
  if (options.hasNoStream()) return 'no_stream';
  if (options.hasAny()) return 'any';
  return BigInt('getStreamPosition' in options ? options.getStreamPosition() : options.getRevision());
}

/** The answer to one append within a batch call, without what it answers to. */
export function batchAnswer(
  expected: Expected,
  result: Exclude<AppendResult, { kind: 'stream deleted' }>,
): streams.BatchAppendResp {
  if (result.kind === 'wrong version') {
    const wrong = new shared.WrongExpectedVersion();
    // The empty messages are those of Google here, and of EventStore elsewhere: on the wire they are the same.
    if (expected === 'any') wrong.setExpectedAny(new shared.Empty());
    else if (expected === 'no_stream') wrong.setExpectedNoStream(new shared.Empty());
    else wrong.setExpectedStreamPosition(expected.toString());
    if (result.current === undefined) wrong.setCurrentNoStream(new shared.Empty());
    else wrong.setCurrentStreamRevision(result.current.toString());
    return batchError('WrongExpectedVersion', 'WrongExpectedVersion', wrong.serializeBinary());
  }
  const success = new streams.BatchAppendResp.Success();
  if (result.revision < 0n) success.setNoStream(new shared.Empty());
  else success.setCurrentRevision(result.revision.toString());
  if (result.position) success.setPosition(placed(new shared.AllStreamPosition(), result.position));
  else success.setNoPosition(new shared.Empty());
  return new streams.BatchAppendResp().setSuccess(success);
}

/** The error of one append within a batch call. */
export function batchFailure(name: BatchErrorName, message: string): streams.BatchAppendResp {
  return batchError(name, message, new Uint8Array(0));
}

export function batchTooLarge(size: number): streams.BatchAppendResp {
  const details = new shared.MaximumAppendSizeExceeded().setMaxappendsize(size);
  return batchError('MaximumAppendSizeExceeded', 'MaximumAppendSizeExceeded', details.serializeBinary());
}

export function batchBadRequest(message: string): streams.BatchAppendResp {
  return batchError(
    'BadRequest',
    'BadRequest',
    new shared.BadRequest().setMessage(message).serializeBinary(),
  );
}

function batchError(name: string, message: string, details: Uint8Array): streams.BatchAppendResp {
  const packed = new any.Any();
  packed.pack(details, `event_store.client.${name}`);
  return new streams.BatchAppendResp().setError(new status.Status().setMessage(message).setDetails(packed));
}

/** An event as it is read; encoded once, since many subscriptions read it. */
export function eventFrame(event: StoredEvent): Buffer {
  event.frame ??= frame(new streams.ReadResp().setEvent(readEvent(event)));
  return event.frame;
}

function readEvent(event: StoredEvent): streams.ReadResp.ReadEvent {
  const recorded = new streams.ReadResp.ReadEvent.RecordedEvent()
    .setId(new shared.UUID().setString(event.id))
    .setStreamIdentifier(identifierOf(event.stream))
    .setStreamRevision(event.revision.toString())
    .setCustomMetadata(event.metadata)
    .setData(event.data);
  placed(recorded, event);
  recorded
    .getMetadataMap()
    .set('type', event.type)
    .set('created', event.created)
    .set('content-type', event.isJson ? JSON_CONTENT : OTHER_CONTENT);
  return new streams.ReadResp.ReadEvent().setEvent(recorded).setCommitPosition(event.commit.toString());
}

export function confirmationFrame(subscriptionId: string): Buffer {
  const confirmation = new streams.ReadResp.SubscriptionConfirmation().setSubscriptionId(subscriptionId);
  return frame(new streams.ReadResp().setConfirmation(confirmation));
}

export function checkpointFrame(position: LogPosition): Buffer {
  return frame(new streams.ReadResp().setCheckpoint(placed(new streams.ReadResp.Checkpoint(), position)));
}

export function caughtUpFrame(): Buffer {
  return frame(new streams.ReadResp().setCaughtUp(new streams.ReadResp.CaughtUp()));
}

export function streamNotFoundFrame(stream: string): Buffer {
  const notFound = new streams.ReadResp.StreamNotFound().setStreamIdentifier(identifierOf(stream));
  return frame(new streams.ReadResp().setStreamNotFound(notFound));
}

function frame(answer: streams.ReadResp): Buffer {
  return Buffer.from(answer.serializeBinary());
}

interface Placed {
  setCommitPosition(value: string): unknown;
  setPreparePosition(value: string): unknown;
}

export function placed<T extends Placed>(message: T, position: LogPosition): T {
  message.setCommitPosition(position.commit.toString());
  message.setPreparePosition(position.prepare.toString());
  return message;
}

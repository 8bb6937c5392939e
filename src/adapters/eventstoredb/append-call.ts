import { convertToCommandError } from '@eventstore/db-client';
import { unpackToCommandError } from '@eventstore/db-client/dist/streams/appendToStream/unpackError.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { type StreamsClient } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import empty from 'google-protobuf/google/protobuf/empty_pb.js';
import { randomUUID } from 'node:crypto';
import { type EventText } from '../stored-text.js';
import { type LogPosition } from './position.js';

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

/** The client's call for appends. */
export type AppendStream = ReturnType<StreamsClient['batchAppend']>;

interface Waiting {
  readonly stream: string;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The call that carries a connection's appends, in their order. It replaces the client's batch append, whose table of
 * waiting appends is shared by all calls of the process: an error of one call rejects them all, and a later answer ends
 * the process.
 */
export class AppendCall {
  readonly #waiting = new Map<string, Waiting>();

  constructor(private readonly call: AppendStream) {
    call
      .on('data', (response: streams.BatchAppendResp) => {
        this.#settle(response);
      })
      .on('error', (error: Error) => {
        this.#lose(convertToCommandError(error));
      })
      .on('end', () => {
        this.#lose(new Error('the server ended the call'));
        call.end();
      });
  }

  /** Rejects with the server's error; with that of the call where it broke off, and the outcome is unknown then. */
  append(order: AppendOrder): { readonly answer: Promise<Answer>; readonly forget: () => void } {
    const id = randomUUID();
    const answer = new Promise<Answer>((resolve, reject) => {
      this.#waiting.set(id, { stream: order.stream, resolve, reject });
    });
    this.call.write(request(id, order)); // unbounded, but the number of appends is not
    return { answer, forget: () => this.#waiting.delete(id) };
  }

  #settle(response: streams.BatchAppendResp): void {
    const id = response.getCorrelationId()?.getString() ?? '';
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (!waiting) return; // forgotten
    const success = response.getSuccess();
    if (success) {
      const position = success.getPosition();
      waiting.resolve({
        revision: BigInt(success.getCurrentRevision()),
        position: position && {
          commit: BigInt(position.getCommitPosition()),
          prepare: BigInt(position.getPreparePosition()),
        },
      });
    } else waiting.reject(refusal(response, waiting.stream));
  }

  #lose(error: unknown): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

const request = (
  correlationId: string,
  { stream, expected, events }: AppendOrder,
): streams.BatchAppendReq => {
  const options = new streams.BatchAppendReq.Options().setStreamIdentifier(
    new shared.StreamIdentifier().setStreamName(Buffer.from(stream)),
  );
  if (expected === 'none') options.setNoStream(new empty.Empty());
  else options.setStreamPosition(String(expected));
  // No deadline: it would be a time of day, and clocks differ. The server has one of its own.
  const proposed = events.map(({ id, type, data, metadata }) => {
    const message = new streams.BatchAppendReq.ProposedMessage()
      .setId(new shared.UUID().setString(id))
      .setData(Buffer.from(data))
      .setCustomMetadata(Buffer.from(metadata));
    message.getMetadataMap().set('type', type).set('content-type', 'application/json');
    return message;
  });
  return new streams.BatchAppendReq()
    .setCorrelationId(new shared.UUID().setString(correlationId))
    .setOptions(options)
    .setProposedMessagesList(proposed)
    .setIsFinal(true);
};

/** An error that cannot be read leaves the outcome unknown. */
const refusal = (response: streams.BatchAppendResp, stream: string): unknown => {
  try {
    return unpackToCommandError(response.getError() as never, stream);
  } catch (error) {
    return error;
  }
};

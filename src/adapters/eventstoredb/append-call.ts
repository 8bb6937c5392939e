import { convertToCommandError } from '@eventstore/db-client';
import { unpackToCommandError } from '@eventstore/db-client/dist/streams/appendToStream/unpackError.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { type StreamsClient } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import empty from 'google-protobuf/google/protobuf/empty_pb.js';
import { randomUUID } from 'node:crypto';
import { type LogPosition } from './position.js';

/** An append as the server takes it. */
export interface AppendOrder {
  readonly stream: string;
  readonly expected: bigint | 'none';
  /** `data` and `metadata` are JSON texts. */
  readonly events: readonly {
    readonly id: string;
    readonly type: string;
    readonly data: string;
    readonly metadata: string;
  }[];
}

/** Where the last event of an append stands. The server does not always know the position of one that is repeated. */
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
 * The call on which a connection's appends go, one after the other, so that the server takes them in that order.
 *
 * It is the client's batch append, done again: the client has one table of waiting appends for all of its calls in
 * a process, so that an error of one rejects those of all, and an answer that comes after that ends the process.
 */
export class AppendCall {
  readonly #waiting = new Map<string, Waiting>();

  constructor(private readonly call: AppendStream) {
    call
      .on('data', (response: streams.BatchAppendResp) => {
        this.#hear(response);
      })
      .on('error', (error: Error) => {
        this.#lose(convertToCommandError(error));
      })
      .on('end', () => {
        this.#lose(new Error('the server ended the call'));
        call.end();
      });
  }

  /** Throws what the server says, or why it could not. What becomes of it is not known where the call broke off. */
  append(order: AppendOrder): { readonly answer: Promise<Answer>; readonly forget: () => void } {
    const id = randomUUID();
    const answer = new Promise<Answer>((resolve, reject) => {
      this.#waiting.set(id, { stream: order.stream, resolve, reject });
    });
    this.call.write(request(id, order)); // the number of appends is bounded, and so is what waits in here
    return { answer, forget: () => this.#waiting.delete(id) };
  }

  #hear(response: streams.BatchAppendResp): void {
    const id = response.getCorrelationId()?.getString() ?? '';
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (!waiting) return; // nobody waits any more
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
  // No deadline: it would be a time of day, and clocks differ. The server has its own for a write.
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

/** Of an answer that is not understood nothing is known: the append may have been written. */
const refusal = (response: streams.BatchAppendResp, stream: string): unknown => {
  try {
    return unpackToCommandError(response.getError() as never, stream);
  } catch (error) {
    return error;
  }
};

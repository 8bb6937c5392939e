import { convertToCommandError } from '@eventstore/db-client';
import { unpackToCommandError } from '@eventstore/db-client/dist/streams/appendToStream/unpackError.js';
import type streams from '@eventstore/db-client/generated/streams_pb.js';
import { type StreamsClient } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import { randomUUID } from 'node:crypto';
import { type Answer, type AppendOrder, type BatchAnswer, encodeAppend } from './messages.js';

/** The call of gRPC for appends: it sends what `encodeAppend` makes, and receives what `decodeAnswer` reads. */
export type AppendStream = ReturnType<
  typeof StreamsClient.prototype.makeBidiStreamRequest<Buffer, BatchAnswer>
>;

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
      .on('data', (answer: BatchAnswer) => {
        this.#settle(answer);
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
    this.call.write(encodeAppend(id, order)); // unbounded, but the number of appends is not
    return { answer, forget: () => this.#waiting.delete(id) };
  }

  #settle(answer: BatchAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (!waiting) return; // forgotten
    if ('written' in answer) waiting.resolve(answer.written);
    else waiting.reject(refusal(answer.refused, waiting.stream));
  }

  #lose(error: unknown): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** An error that cannot be read leaves the outcome unknown. */
const refusal = (response: streams.BatchAppendResp, stream: string): unknown => {
  try {
    return unpackToCommandError(response.getError() as never, stream);
  } catch (error) {
    return error;
  }
};

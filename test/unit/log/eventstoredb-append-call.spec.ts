import { beforeEach, describe, expect, it } from '@jest/globals';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { EventEmitter } from 'node:events';
import { AppendCall, type AppendStream } from '../../../src/log/eventstoredb/append-call.js';
import { type BatchAnswer, decodeAnswer } from '../../../src/log/eventstoredb/messages.js';

const ORDER = {
  stream: 'plant-anne/1',
  expected: 'none',
  events: [{ id: '5c1f0e6f-53b5-4b4e-8a57-3f0d3f5c2f57', type: 'PlantDeleted', data: '{}', metadata: '{}' }],
} as const;

/** The server's side of a call. */
class Call extends EventEmitter {
  readonly asked: string[] = [];
  ended = false;

  write(encoded: Buffer): void {
    this.asked.push(streams.BatchAppendReq.deserializeBinary(encoded).getCorrelationId()?.getString() ?? '');
  }
  end(): void {
    this.ended = true;
  }

  /** Answers that an append was written. */
  written(id: string | undefined, revision: number): void {
    const success = new streams.BatchAppendResp.Success();
    success.setCurrentRevision(String(revision));
    const answer = new streams.BatchAppendResp().setSuccess(success);
    if (id !== undefined) answer.setCorrelationId(new shared.UUID().setString(id));
    this.emit('data', received(answer));
  }
}

/** An answer as the call emits it. */
const received = (answer: streams.BatchAppendResp): BatchAnswer =>
  decodeAnswer(Buffer.from(answer.serializeBinary()));

describe('the call for appends', () => {
  let server: Call;
  let call: AppendCall;

  beforeEach(() => {
    server = new Call();
    call = new AppendCall(server as unknown as AppendStream);
  });

  it('gives each append its own answer, in whatever order they come', async () => {
    const appends = [call.append(ORDER), call.append(ORDER)];
    const [first, second] = server.asked;
    server.written(second, 2);
    server.written(first, 1);
    expect(await Promise.all(appends.map(({ answer }) => answer))).toEqual([
      { revision: 1n, position: undefined },
      { revision: 2n, position: undefined },
    ]);
  });

  it('takes no answer for another append’s: not one that comes too late, twice, or names none', async () => {
    const late = call.append(ORDER);
    late.forget();
    const waiting = call.append(ORDER);
    const [forgotten, asked] = server.asked;
    server.written(forgotten, 7);
    server.written(undefined, 8);
    server.written(asked, 1);
    server.written(asked, 9);
    expect((await waiting.answer).revision).toBe(1n);
  });

  it('hears of an answer that nobody understands as of an error: the append may have been written', async () => {
    const { answer } = call.append(ORDER);
    const odd = new streams.BatchAppendResp().setCorrelationId(
      new shared.UUID().setString(server.asked[0] ?? ''),
    );
    server.emit('data', received(odd));
    await expect(answer).rejects.toBeInstanceOf(Error);
  });

  it('rejects all that wait when the server ends it, and ends it too', async () => {
    const appends = [call.append(ORDER), call.append(ORDER)];
    const ends = Promise.allSettled(appends.map(({ answer }) => answer));
    server.emit('end');
    expect(await ends).toEqual([
      { status: 'rejected', reason: new Error('the server ended the call') },
      { status: 'rejected', reason: new Error('the server ended the call') },
    ]);
    expect(server.ended).toBe(true);
  });
});

import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { EventStreamParser, type StreamEvent } from '../../../console/event-stream.js';

const parsed = (...pieces: string[]): StreamEvent[] => {
  const parser = new EventStreamParser();
  return pieces.flatMap((piece) => [...parser.push(piece)]);
};

describe('a stream of server-sent events', () => {
  it('has events with type, data and id', () => {
    expect(parsed('id: 7\nevent: added\ndata: {"id":1}\n\n')).toEqual([
      { type: 'added', data: '{"id":1}', id: '7' },
    ]);
    expect(parsed('data:one\ndata: two\n\n')).toEqual([{ type: 'message', data: 'one\ntwo', id: undefined }]);
  });

  it('has signs of life, which say where to go on', () => {
    expect(parsed('data: a\nid: 1\n\n', ': still here\nid: 2\n\n')).toEqual([
      { type: 'message', data: 'a', id: '1' },
      { type: 'message', data: undefined, id: '2' },
    ]);
  });

  it('keeps the last id, and forgets the type', () => {
    expect(parsed('id: 1\nevent: x\ndata: a\n\ndata: b\n\n')[1]).toEqual({
      type: 'message',
      data: 'b',
      id: '1',
    });
  });

  it('says when to come back', () => {
    const parser = new EventStreamParser();
    expect([...parser.push('retry: 2000\n\n')]).toEqual([
      { type: 'message', data: undefined, id: undefined },
    ]);
    expect(parser.retryMs).toBe(2_000);
  });

  it('is the same however it is cut', () => {
    const text =
      ': hello\r\n\r\nid: 1\r\nevent: added\r\ndata: {"name":"näme"}\r\n\r\nid: 2\ndata: b\n\n\rdata: c\r\r';
    const whole = parsed(text).filter(({ data }) => data !== undefined);
    fc.assert(
      fc.property(fc.array(fc.nat(text.length)), (cuts) => {
        const places = [0, ...cuts.sort((a, b) => a - b), text.length];
        const pieces = places.slice(1).map((end, index) => text.slice(places[index], end));
        expect(parsed(...pieces).filter(({ data }) => data !== undefined)).toEqual(whole);
      }),
    );
  });

  it('does not fill the memory', () => {
    expect(() => parsed(`data: ${'x'.repeat(2 ** 20)}`)).toThrow(RangeError);
  });
});

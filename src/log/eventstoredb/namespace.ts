import { OUR_STREAMS } from '../../domain/stream.js';
import { type Position, type RecordedEvent } from '../event-log.js';
import { type ReadEvent } from './messages.js';
import { type LogPosition, toPosition } from './position.js';

/** True for names of the port's streams. */
export const isOurs = (stream: string): boolean => OUR_STREAMS.some((ours) => stream.startsWith(ours));

/** An event's position. That the server sends one was checked when the log was opened. */
export const positionOf = ({ position }: ReadEvent): Position => toPosition(position as LogPosition);

/** True for an event that says that its stream was deleted: it stands in that stream, and is none of the log. */
export const isTombstone = ({ type }: ReadEvent): boolean => type === '$streamDeleted';

/** The streams of one log among all streams of a server: their names there begin with the prefix of the log. */
export class Namespace {
  readonly #prefix: string;
  /** Beginnings of the names of the log's streams on the server. */
  readonly streamPrefixes: readonly string[];

  constructor(namespace: string) {
    this.#prefix = namespace === '' ? '' : `${namespace}.`;
    this.streamPrefixes = OUR_STREAMS.map((ours) => this.onServer(ours));
  }

  /** The name on the server of a stream of the port. */
  onServer(stream: string): string {
    return this.#prefix + stream;
  }

  includes(event: ReadEvent): boolean {
    const { streamId } = event;
    return (
      streamId.startsWith(this.#prefix) && isOurs(streamId.slice(this.#prefix.length)) && !isTombstone(event)
    );
  }

  toRecorded(event: ReadEvent): RecordedEvent {
    const { streamId, revision, id, type, data, metadata } = event;
    return {
      stream: streamId.slice(this.#prefix.length),
      revision,
      position: positionOf(event),
      id,
      type,
      data: textOf(data),
      metadata: textOf(metadata),
    };
  }
}

/** The client returns bytes where the data is not JSON: the codec refuses the text with its position. */
const textOf = (value: unknown): unknown =>
  value instanceof Uint8Array ? Buffer.from(value).toString() : value;

import { readFile } from 'node:fs/promises';
import {
  BACKWARDS,
  type ChannelCredentialOptions,
  END,
  FORWARDS,
  NotLeaderError,
  type ReadAllOptions,
  type ReadStreamOptions,
  type SingleNodeOptions,
  type StreamingRead,
  StreamNotFoundError,
} from '@eventstore/db-client';
import { debug } from '@eventstore/db-client/dist/utils/debug.js';
import { monotonicMs, startTimer, stopTimer } from '../../runtime/runtime.js';
import { LogUnavailable } from '../event-log.js';
import { Client, closeableStream } from './client.js';
import { explain, inTime, NoAnswer } from './failure.js';
import { Feed } from './feed.js';
import { describeConnection, type Endpoint, type EventStoreConnectionString } from './connection-string.js';
import { type Answer, type AppendOrder, type ReadEvent } from './messages.js';
import { type LogPosition } from './position.js';
import { readOption } from './server-option.js';
import { sendNoAddressAsServerName } from './server-name.js';

/** Deadlines, in milliseconds. */
export interface ServerLimits {
  /** From an append's request to its answer. */
  readonly deadlineMs: number;
  /** Between a read's request and its first event, and between two events. */
  readonly readDeadlineMs: number;
}

/**
 * After so many seconds the client asks another member for the leader, as one may be frozen; it leaves the rest of a
 * call's deadline for the call.
 */
const GOSSIP_TIMEOUT_S = 2;

/** Events of the first page of a search backwards: mostly for the head, which is mostly the last event. */
const FIRST_PAGE = 2;

/** From this size on the round trips no longer matter. */
const LARGEST_PAGE = 4_096;

/** Waiting does not help: a person has to change something. */
export class LogRefused extends LogUnavailable {}

/** The calls of the log: each has a deadline and goes to the leader. */
export class Server {
  #client: Client;
  #closed = false;

  private constructor(
    private readonly place: EventStoreConnectionString,
    private readonly credentials: ChannelCredentialOptions,
    readonly limits: ServerLimits,
  ) {
    this.#client = this.#connect();
  }

  /** Reads the certificates; connects at the first call. Throws LogRefused where a file cannot be used. */
  static async of(place: EventStoreConnectionString, limits: ServerLimits): Promise<Server> {
    // With DEBUG=esdb* the client prints credentials, keys and events.
    for (const logger of Object.values(debug)) logger.enabled = false;
    const { tls, tlsCAFile, userCertificate } = place;
    if (tls) sendNoAddressAsServerName();
    try {
      const credentials = {
        insecure: !tls,
        ...(tlsCAFile === undefined ? {} : { rootCertificate: await readFile(tlsCAFile) }),
        ...(userCertificate && {
          userCertFile: await readFile(userCertificate.certFile),
          userKeyFile: await readFile(userCertificate.keyFile),
        }),
      };
      return new Server(place, credentials, limits);
    } catch (error) {
      const { path, code } = error as NodeJS.ErrnoException;
      throw new LogRefused(
        path === undefined
          ? 'tlsCAFile, userCertFile and userKeyFile must be PEM files, and the key that of the certificate'
          : `${path} cannot be read (${String(code)}): correct tlsCAFile, userCertFile and userKeyFile`,
        { cause: error },
      );
    }
  }

  get title(): string {
    return `the event log at ${describeConnection(this.place)}`;
  }

  /** The port's error for a call's error. */
  unavailable(error: unknown): LogUnavailable {
    if (error instanceof LogUnavailable) return error;
    const { text, definite } = explain(error);
    return new (definite ? LogRefused : LogUnavailable)(`${this.title} ${text}`, { cause: error });
  }

  /**
   * As `unavailable`, for a caller that can wait. The client does not report why it finds no leader, so each member is
   * asked: a LogRefused where all of them refuse.
   */
  async whyUnavailable(error: unknown): Promise<LogUnavailable> {
    const { endpoints, cluster } = this.place;
    const reasons = await Promise.all((cluster ? endpoints : []).map((endpoint) => this.#refusal(endpoint)));
    const [refusal] = reasons.filter((reason) => reason instanceof LogRefused);
    if (!refusal) return this.unavailable(error);
    return reasons.every((reason) => reason instanceof LogRefused)
      ? refusal
      : new LogUnavailable(refusal.message, { cause: refusal.cause });
  }

  /** Appends, in the order of the calls. Throws what the client throws, NoAnswer, or LogUnavailable once closed. */
  append(order: AppendOrder): Promise<Answer> {
    return this.#toLeader((client) => client.append(order, this.limits.deadlineMs));
  }

  /** Events of a stream from a revision on; none if there is no such stream. */
  async readStream(
    stream: string,
    fromRevision: bigint,
    maxCount = Number.MAX_SAFE_INTEGER,
  ): Promise<ReadEvent[]> {
    return this.#readOf(stream, { fromRevision, maxCount });
  }

  /** The last event of a stream; undefined if there is no such stream. */
  async readLast(stream: string): Promise<ReadEvent | undefined> {
    const [last] = await this.#readOf(stream, { direction: BACKWARDS, fromRevision: END, maxCount: 1 });
    return last;
  }

  async #readOf(stream: string, options: ReadStreamOptions): Promise<ReadEvent[]> {
    try {
      return await this.#read((client) => client.readStream(stream, { ...options, requiresLeader: true }));
    } catch (error) {
      if (error instanceof StreamNotFoundError) return [];
      throw this.unavailable(error);
    }
  }

  /**
   * The events of all streams before a position, or from the end, newest first, in pages: a small one, since what is
   * looked for is mostly near, and then larger ones. Ends with the first event of the server.
   */
  async *readBackwards(before?: LogPosition): AsyncGenerator<ReadEvent[], void, undefined> {
    let from: LogPosition | typeof END = before ?? END;
    for (let size = FIRST_PAGE; ; size = Math.min(size * 8, LARGEST_PAGE)) {
      const page = await this.#readAll({ direction: BACKWARDS, fromPosition: from, maxCount: size });
      const end = page.at(-1)?.position;
      if (!end) return;
      yield page;
      from = end;
    }
  }

  /** Events of all streams from a position on, in log order. */
  readForwards(from: LogPosition, maxCount: number): Promise<ReadEvent[]> {
    return this.#readAll({ direction: FORWARDS, fromPosition: from, maxCount });
  }

  async #readAll(options: ReadAllOptions): Promise<ReadEvent[]> {
    try {
      return await this.#read((client) => client.readAll({ ...options, requiresLeader: true }));
    } catch (error) {
      throw this.unavailable(error);
    }
  }

  /**
   * Deletes a stream so that it is not written again, at the revision of its last event. Throws what the client throws (WrongExpectedVersionError
   * and StreamDeletedError among it), NoAnswer, or LogUnavailable once closed.
   */
  async tombstone(stream: string, expectedRevision: bigint): Promise<void> {
    const { deadlineMs } = this.limits;
    const options = { expectedRevision, requiresLeader: true, deadline: deadlineMs };
    await this.#toLeader((client) => inTime(deadlineMs, client.tombstoneStream(stream, options)));
  }

  /** As `Client.members`. Throws what it throws, or NoAnswer. */
  members(): Promise<number> {
    return this.#toLeader((client) => inTime(this.limits.readDeadlineMs, client.members()));
  }

  /** As `readOption`. Throws what it throws, or NoAnswer. */
  async option(name: string): Promise<string | undefined> {
    this.#assertOpen();
    const { readDeadlineMs: timeoutMs } = this.limits;
    const target = await inTime(timeoutMs, this.#client.target());
    const { tls: isTls, credentials } = this.place;
    const { rootCertificate: ca, userCertFile: cert, userKeyFile: key } = this.credentials;
    const tls = Object.fromEntries(Object.entries({ ca, cert, key }).filter(([, value]) => value));
    const origin = `${isTls ? 'https' : 'http'}://${target}`;
    // As the client does: no password in plain text.
    return readOption(name, { origin, tls, credentials: isTls ? credentials() : undefined, timeoutMs });
  }

  /** As `Client.startScavenge`. Throws what it throws, or NoAnswer. */
  startScavenge(): Promise<void> {
    return this.#toLeader((client) => inTime(this.limits.deadlineMs, client.startScavenge()));
  }

  /** All events after a position of streams that begin with one of these. */
  subscribe(after: LogPosition, prefixes: readonly string[]): Feed {
    this.#assertOpen();
    return new Feed(this.#client, after, prefixes);
  }

  close(): void {
    this.#closed = true;
    this.#client.leave();
  }

  #assertOpen(): void {
    if (this.#closed) throw new LogUnavailable(`${this.title} was closed`);
  }

  #connect(): Client {
    const { endpoints, cluster } = this.place;
    const [endpoint] = endpoints;
    return this.#clientOf(cluster ? { endpoints } : { endpoint });
  }

  #clientOf(servers: { endpoint: Endpoint | undefined } | { endpoints: readonly Endpoint[] }): Client {
    const { settings, credentials } = this.place;
    const options = { gossipTimeout: GOSSIP_TIMEOUT_S, ...settings, ...structuredClone(servers) };
    return new Client(options as SingleNodeOptions, this.credentials, credentials());
  }

  /** Why a member refuses to answer, if so. */
  async #refusal(endpoint: Endpoint): Promise<LogUnavailable | undefined> {
    const client = this.#clientOf({ endpoint });
    try {
      await this.#readFrom(client, () => client.readAll({ maxCount: 1 }));
      return undefined;
    } catch (error) {
      return this.unavailable(error);
    } finally {
      client.leave();
    }
  }

  /** Makes the call, and once more where it met a follower: the client then has the leader's address. */
  async #toLeader<T>(call: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await this.#watchedCall(call);
    } catch (error) {
      if (!(error instanceof NotLeaderError)) throw error;
      return this.#watchedCall(call);
    }
  }

  /**
   * Makes the call. Where the server sent nothing at all during the call, its connection may be dead (a router has
   * dropped it): the next calls take a new one.
   */
  async #watchedCall<T>(call: (client: Client) => Promise<T>): Promise<T> {
    this.#assertOpen();
    const client = this.#client;
    const began = monotonicMs();
    try {
      const answer = await call(client);
      client.heard = monotonicMs();
      return answer;
    } catch (error) {
      if (!(error instanceof NoAnswer)) client.heard = monotonicMs();
      else if (client.heard < began && client === this.#client && !this.#closed) {
        this.#client = this.#connect();
        client.leave();
      }
      throw error;
    }
  }

  #read(open: (client: Client) => StreamingRead<unknown>): Promise<ReadEvent[]> {
    return this.#toLeader((client) => this.#readFrom(client, () => open(client)));
  }

  async #readFrom(client: Client, open: () => StreamingRead<unknown>): Promise<ReadEvent[]> {
    const { readDeadlineMs } = this.limits;
    const stream = open();
    const close = closeableStream(stream);
    const giveUp = (): void => {
      stream.destroy(new NoAnswer(readDeadlineMs, true));
    };
    const timer = startTimer(giveUp, readDeadlineMs);
    const offLeave = client.onLeave(giveUp);
    try {
      const events: ReadEvent[] = [];
      // Links are not resolved, so there is always an event.
      for await (const { event } of stream as AsyncIterable<{ event: ReadEvent }>) {
        client.heard = monotonicMs();
        timer.refresh();
        events.push(event);
      }
      // The library ends a read whose call was cancelled as if it were complete.
      if (client.left) throw new NoAnswer(readDeadlineMs, true);
      return events;
    } finally {
      stopTimer(timer);
      offLeave();
      close();
    }
  }
}

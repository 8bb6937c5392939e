import {
  AccessDeniedError,
  MaxAppendSizeExceededError,
  NotLeaderError,
  StreamDeletedError,
} from '@eventstore/db-client';
import { within } from '../../runtime/deadline.js';
import { LogUnavailable } from '../event-log.js';

/** The meaning of a call's error. */
export interface Failure {
  /** Follows "the event log at …": what is wrong and what to do. Holds no secrets. */
  readonly text: string;
  /** True if the call has certainly changed nothing. */
  readonly nothingDone: boolean;
  /** True if it lasts until a person changes something. */
  readonly definite: boolean;
}

/** A call was not answered in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  constructor(
    ms: number,
    /** False if the call was not sent: it has changed nothing. */
    readonly begun: boolean,
  ) {
    super(`did not answer within ${ms} ms`);
  }
}

/** As `within`, with NoAnswer. */
export const inTime = <T>(ms: number, answer: Promise<T>, begun: () => boolean = () => true): Promise<T> =>
  within(ms, answer, () => new NoAnswer(ms, begun()));

/** True if a read failed as one does from a position within a record: the server says no more than that. */
export const isWithinRecord = (error: unknown): boolean =>
  error instanceof LogUnavailable &&
  error.cause instanceof Error &&
  /^2 UNKNOWN: (Unexpected ReadAllResult|Exception was thrown by handler)/.test(error.cause.message);

const refused = (text: string): Failure => ({ text, nothingDone: true, definite: true });
const notNow = (text: string): Failure => ({ text, nothingDone: true, definite: false });
const unknown = (text: string): Failure => ({ text, nothingDone: false, definite: false });

/** gRPC's UNAUTHENTICATED: unknown user or wrong password. */
const UNAUTHENTICATED = 16;

type Words = readonly (readonly [RegExp, Failure])[];

/** The client's messages without a connection, for which it has no codes: nothing of the call was sent. */
const NOT_CONNECTED =
  /^14 UNAVAILABLE: (No connection established|Name resolution failed|Channel closed before)/;

/** Reasons for no connection, by the first pattern that matches. */
const CONNECTING: Words = [
  [
    /altname/,
    refused('has a certificate for another host name: use a name that its certificate has, or replace it'),
  ],
  [
    /certificate|CERT_/,
    refused(
      'has a certificate that is not trusted, or not valid now: name the file of its CA with tlsCAFile',
    ),
  ],
  [
    /EPROTO|wrong version number|packet length/,
    refused('does not speak TLS on this port: start it with TLS, or say tls=false'),
  ],
  [/ECONNREFUSED/, notNow('refuses connections: start it, or correct host and port')],
  [/Name resolution/, notNow('has a host name that is not known: correct it, or the DNS')],
  [
    /Last error: Failed to connect/,
    notNow('accepts connections, but says nothing that is understood: leave out tls=false if it uses TLS'),
  ],
  [/^/, notNow('cannot be reached: start it, or correct host, port and tls')],
];

/** Messages of a server, or of the search for a leader, that has not begun the call. */
const NOT_BEGUN: Words = [
  [
    /^Failed to discover/,
    notNow('has no leader that can be reached: start a majority of its members, or correct the hosts'),
  ],
  [
    /^(2 UNKNOWN: |Could not recognize )No leader info/,
    notNow('has no leader now: start a majority of its members'),
  ],
  [
    /^(14 UNAVAILABLE: |Could not recognize )Server Is (Not Ready|(Too )?Busy)/,
    notNow('is starting, electing a leader, or too busy: try again'),
  ],
];

export const explain = (error: unknown): Failure => {
  if (error instanceof AccessDeniedError)
    return (error.code as number | undefined) === UNAUTHENTICATED
      ? refused('does not know this user with this password: correct them in the URL')
      : refused(
          'refuses to let this user read $all, and read and write the streams of plants: name one that may',
        );
  if (error instanceof NotLeaderError) return unknown('has another leader now: try again');
  if (error instanceof StreamDeletedError)
    return refused(`has had the stream ${error.streamName} deleted for ever: its events are lost`);
  if (error instanceof MaxAppendSizeExceededError)
    return refused(
      `takes at most ${error.maxAppendSize} bytes of data in one append: raise its MaxAppendSize`,
    );
  if (error instanceof NoAnswer) {
    const text = `${error.message}: check the server and the network to it`;
    return error.begun ? unknown(text) : notNow(text);
  }
  const words = oneLine(error);
  const table = NOT_CONNECTED.test(words) ? CONNECTING : NOT_BEGUN;
  const found = table.find(([pattern]) => pattern.test(words));
  return found?.[1] ?? unknown(`failed (${words}): check the server and the network to it`);
};

/** An error's message, at most 300 characters in one line. Some errors have only a name. */
const oneLine = (error: unknown): string => {
  const { message, constructor } = error as Error;
  return (message || constructor.name).replace(/[\p{Cc}\s]+/gu, ' ').slice(0, 300);
};

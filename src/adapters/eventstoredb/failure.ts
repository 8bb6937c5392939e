import {
  AccessDeniedError,
  MaxAppendSizeExceededError,
  NotLeaderError,
  StreamDeletedError,
} from '@eventstore/db-client';
import { within } from '../../async/deadline.js';

/** What went wrong with a call. */
export interface Failure {
  /** What is wrong and what to do about it: goes on after "the event log at …". Holds nothing secret. */
  readonly text: string;
  /** Whether the server, or this machine, refused for sure: the call has changed nothing. */
  readonly nothingDone: boolean;
  /** Whether it will be the same until somebody changes something. */
  readonly definite: boolean;
}

/** A call was not answered in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  constructor(
    ms: number,
    /** Whether the call was begun: one that was not has done nothing. */
    readonly begun: boolean,
  ) {
    super(`did not answer within ${ms} ms`);
  }
}

/** The answer, if it comes in time; else NoAnswer, and what comes later is dropped. */
export const inTime = <T>(ms: number, answer: Promise<T>, begun: () => boolean = () => true): Promise<T> =>
  within(ms, answer, () => new NoAnswer(ms, begun()));

const refused = (text: string): Failure => ({ text, nothingDone: true, definite: true });
const notNow = (text: string): Failure => ({ text, nothingDone: true, definite: false });
const unknown = (text: string): Failure => ({ text, nothingDone: false, definite: false });

/** UNAUTHENTICATED of gRPC: nobody knows this user with this password. */
const UNAUTHENTICATED = 16;

type Words = readonly (readonly [RegExp, Failure])[];

/** How the client's library begins where it has no connection: nothing of a call was sent. It has no codes for it. */
const NOT_CONNECTED =
  /^14 UNAVAILABLE: (No connection established|Name resolution failed|Channel closed before)/;

/** Why there is no connection: the first that fits. */
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

/** How the server, or the client when it looks for one, says that it has not begun. */
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

/** Makes sense of what a call threw. */
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

/** The words of an error, fit for a message: short, and without line ends. Some errors have only a name. */
const oneLine = (error: unknown): string => {
  const { message, constructor } = error as Error;
  return (message || constructor.name).replace(/[\p{Cc}\s]+/gu, ' ').slice(0, 300);
};

import { Metadata, type ServerErrorResponse, status } from '@grpc/grpc-js';

/** The name of a message that a batch append carries as its error, in the protocol's package. */
export type BatchErrorName = 'AccessDenied' | 'StreamDeleted' | 'Timeout' | 'Unknown' | 'Empty';

/** A refusal in the server's words: those of RpcExceptions.cs and Status.cs of EventStoreDB. */
export interface Failure {
  readonly code: status;
  readonly details: string;
  readonly trailers: Readonly<Record<string, string>>;
  /** The same for one append within a batch call. Where it is missing, the whole call ends. */
  readonly inBatch?: { readonly name: BatchErrorName; readonly message: string };
}

/** The connection works, the server behind it does not: what a proxy says, or a server that goes down. */
export const unavailable: Failure = {
  code: status.UNAVAILABLE,
  details: 'Service Unavailable',
  trailers: {},
};

/** The server starts up or elects a leader. A batch append is told so without a code that a client could know. */
export const notReady: Failure = {
  code: status.UNAVAILABLE,
  details: 'Server Is Not Ready',
  trailers: {},
  inBatch: { name: 'Empty', message: 'Server Is Not Ready' },
};

/** The call asked for the leader, and this member follows another one. */
export function notLeader(host: string, port: number): Failure {
  return {
    code: status.NOT_FOUND,
    details: 'Leader info available',
    trailers: {
      exception: 'not-leader',
      'leader-endpoint-host': host,
      'leader-endpoint-port': port.toString(),
    },
  };
}

/** The user may not do this. */
export const accessDenied: Failure = {
  code: status.PERMISSION_DENIED,
  details: 'Access Denied',
  trailers: { exception: 'access-denied' },
  inBatch: { name: 'AccessDenied', message: 'AccessDenied' },
};

/** The password is wrong, or the user is not known. */
export const unauthenticated: Failure = {
  code: status.UNAUTHENTICATED,
  details: 'Unauthenticated',
  trailers: {},
};

/** The write did not reach its quorum in time: it may or may not be there. */
export const writeTimeout: Failure = {
  code: status.ABORTED,
  details: 'Operation timed out: Prepare phase timeout.',
  trailers: {},
  inBatch: { name: 'Timeout', message: 'Timeout' },
};

/** From 23.10 to a live subscription that does not read as fast as others write. */
export const consumerTooSlow: Failure = {
  code: status.ABORTED,
  details:
    'Operation timed out: Consumer too slow to handle event while live. Client resubscription required.',
  trailers: {},
};

/** Ends running calls when the server is told to stop (SIGTERM), before its port closes. */
export const shuttingDown: Failure = {
  code: status.INTERNAL,
  details: 'Received RST_STREAM with code 0 (Call ended without gRPC status)',
  trailers: {},
};

/** Something that the server had not expected. */
export const unknown: Failure = {
  code: status.UNKNOWN,
  details: 'Exception was thrown by handler.',
  trailers: {},
  inBatch: { name: 'Unknown', message: 'Unknown' },
};

/** A read that the server cannot do: of nothing, after the end, or from a position within a record. */
export function unreadable(result: 'ReadStreamResult' | 'ReadAllResult'): Failure {
  return { code: status.UNKNOWN, details: `Unexpected ${result}: Error`, trailers: {} };
}

/** The stream has a tombstone. */
export function streamDeleted(stream: string): Failure {
  return {
    code: status.FAILED_PRECONDITION,
    details: `Event stream '${stream}' is deleted.`,
    trailers: { exception: 'stream-deleted', 'stream-name': stream },
    inBatch: { name: 'StreamDeleted', message: 'StreamDeleted' },
  };
}

/** A deletion whose expected revision is not the stream's. */
export function wrongVersionOnDelete(stream: string, expected: bigint, actual: bigint): Failure {
  return {
    code: status.FAILED_PRECONDITION,
    details:
      `Delete failed due to WrongExpectedVersion. Stream: ${stream}, ` +
      `Expected version: ${expected.toString()}, Actual version: ${actual.toString()}`,
    trailers: {
      exception: 'wrong-expected-version',
      'stream-name': stream,
      'expected-version': expected.toString(),
      'actual-version': actual.toString(),
    },
  };
}

/** The request makes no sense. */
export function invalidArgument(details: string): Failure {
  return { code: status.INVALID_ARGUMENT, details, trailers: {} };
}

export function asGrpc({ code, details, trailers }: Failure): ServerErrorResponse {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(trailers)) metadata.set(name, value);
  return Object.assign(new Error(details), { code, details, metadata });
}

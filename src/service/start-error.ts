/**
 * The event log that the settings name is not the one that the files beside it are derived from. A restart does not help.
 * The message is one line for the operator.
 */
export class LogMissing extends Error {
  override readonly name = 'LogMissing';
}

/** The service cannot start. The message is one line for the operator. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

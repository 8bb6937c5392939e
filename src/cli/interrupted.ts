/** A signal ended a command. The message is one line that says what is left to do. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';

  constructor(
    message: string,
    /** Ctrl-C typed at a question comes without a signal. */
    readonly signal: 'SIGINT' | 'SIGTERM' = 'SIGINT',
  ) {
    super(message);
  }
}

/** Aborts, with an Interrupted of this message, at the first SIGINT or SIGTERM. */
export const stopSignal = (message: string): AbortSignal => {
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => {
      stopping.abort(new Interrupted(message, signal));
    });
  return stopping.signal;
};

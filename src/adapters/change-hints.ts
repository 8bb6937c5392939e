/**
 * Tells other processes on the same files that something has changed there, and hears that of them. It only shortens
 * waiting: who waits looks at the files by itself, too.
 */
export interface ChangeHints {
  /** Must not throw. */
  readonly send: () => void;
  /** Calls `listener` with each hint of another process. */
  readonly listen: (listener: () => void) => void;
}

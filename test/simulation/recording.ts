/**
 * A change by a process to the files of a folder, in order. Paths are relative to that folder. `begun` and `ended` are
 * lines of the trace: of two calls, one was over before the other began where its `ended` is less than the other's
 * `begun`.
 */
export type Step = { readonly begun: number; readonly ended: number } & (
  | { readonly kind: 'make'; readonly path: string; readonly folder: boolean }
  | { readonly kind: 'write'; readonly path: string; readonly at: number | 'end'; readonly bytes: Buffer }
  | { readonly kind: 'truncate'; readonly path: string; readonly size: number }
  | { readonly kind: 'sync'; readonly path: string }
  | { readonly kind: 'link'; readonly from: string; readonly path: string }
  | { readonly kind: 'rename'; readonly from: string; readonly path: string }
  | { readonly kind: 'unlink'; readonly path: string }
  /** An answer with that request id is being sent, with status 200 to 299. */
  | { readonly kind: 'answer'; readonly id: string }
);

/** Seen by a client, by the id of its request: a power cut must not undo it. */
export type Seen =
  | { readonly kind: 'written'; readonly position: string; readonly stream: string; readonly type: string }
  | { readonly kind: 'signed'; readonly note: string }
  | { readonly kind: 'erased'; readonly erasure: string }
  | { readonly kind: 'backup'; readonly events: number };

/** The folders and files of a recorded run, relative to its own folder. */
export const DATA = 'data';
export const BACKUP = 'away/backup.db';

/** Written to by the run itself: each line is the id of something seen that no answer of the service carries. */
export const MARKS = 'marks';

/** The name of the owner that is erased, which stands in no other text. */
export const ERASED_OWNER = 'MARKER-of-somebody';

export interface RunReport {
  readonly seen: Readonly<Record<string, Seen>>;
}

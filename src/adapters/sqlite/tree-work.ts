import {
  type Alarm,
  type SignedCheckpoint,
  type StateGrowth,
  type StoredState,
  type TreeGrowth,
  TreeUnavailable,
} from '../../ports/tree-store.js';
import { type FileFault } from './file-names.js';

/** The work of the writer thread, each in a transaction, in the order of the calls. */
export type TreeWork =
  | { readonly kind: 'append'; readonly growth: TreeGrowth }
  | { readonly kind: 'state'; readonly growth: StateGrowth }
  | { readonly kind: 'save'; readonly checkpoint: SignedCheckpoint }
  | { readonly kind: 'raise'; readonly alarm: Alarm }
  | { readonly kind: 'lift'; readonly by: string; readonly reason: string }
  | { readonly kind: 'scrub'; readonly erasures: number };

export interface TreeWriterData {
  readonly file: string;
  readonly log: string;
}

/** The answer to each kind of work. */
export interface TreeAnswers {
  readonly append: undefined;
  readonly state: StoredState;
  readonly save: undefined;
  readonly raise: undefined;
  /** The text of the alarm that was lifted. */
  readonly lift: string | undefined;
  readonly scrub: undefined;
}

/** Whether content of the file is lost, and not only its name. */
export const isCut = ({ kind }: FileFault): boolean => kind === 'truncated' || kind === 'overwritten';

/** Advice for a file that cannot be used: it holds signatures that cannot be made again. */
export const keepAdvice = (file: string): string =>
  `keep a copy of ${file}, which holds the checkpoints that were signed, and see docs/audit.md`;

/**
 * The error for a file that was taken away. No new tree is begun automatically, as signed checkpoints cannot be made
 * again.
 */
export const takenAway = (file: string, fault: FileFault): TreeUnavailable =>
  new TreeUnavailable(`${fault.message}, and nothing is signed any more: ${adviceOn(file, fault)}`);

const adviceOn = (file: string, fault: FileFault): string => {
  const { path } = fault;
  if (isCut(fault))
    return `stop the service, keep copies of ${file} and ${file}-wal, put both back from a backup, or move both aside, for a new tree to be built from the event log (docs/audit.md), then start again`;
  if (path.endsWith('-wal') || path.endsWith('-shm'))
    return `stop the service in order (SIGTERM, not SIGKILL), by which everything that was signed comes into ${file}; move aside what stands at ${path}, then start again`;
  return `keep ${file}-wal; stop the service in order (SIGTERM, not SIGKILL), put ${file} back from where it was moved or from a backup, then start again`;
};

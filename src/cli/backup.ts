import { type Position } from '../ports/event-log.js';
import { Progress } from './progress.js';
import { type CliContext, print } from './context.js';
import { duration } from './terminal.js';

/** The progress of a copy of a log. */
interface CopyProgress {
  readonly phase: string;
  readonly events: number;
  readonly total: number;
}

/** The content of a copy of a log, and the size of its file. */
interface CopiedLog {
  readonly events: number;
  readonly head: Position;
  readonly bytes: number;
}

/** Makes a copy, and reports its progress. */
export type MakeCopy = (watch: {
  readonly onProgress: (progress: CopyProgress) => void;
  readonly signal: AbortSignal;
}) => Promise<CopiedLog>;

/** Makes a backup in `file`, and prints and returns its content. Throws what `make` throws. */
export const backup = (
  context: Pick<CliContext, 'json' | 'signal'>,
  file: string,
  make: MakeCopy,
): Promise<CopiedLog> =>
  copied(context, file, make, (what) => `backed up ${what} to ${file}: compared with the log and checked`);

/** Files beside a log that is restored, which may be derived from events that the backup lacks. */
interface BesideLog {
  /** The instruction to set the read model aside; undefined where there is none. */
  readonly readModel: string | undefined;
  /** The auditor's tree, and how many events it was made from; undefined where there is none. */
  readonly tree: { readonly file: string; readonly leaves: number | undefined };
}

/**
 * Makes the log in `file` from a backup, and prints its content and what to do before a start. Throws what `make`
 * throws.
 */
export const restore = async (
  context: Pick<CliContext, 'json' | 'signal'>,
  file: string,
  make: MakeCopy,
  { readModel, tree }: BesideLog,
): Promise<void> => {
  const { events } = await copied(context, file, make, (what) => `restored ${what} to ${file}: checked`);
  const next: string[] = [];
  if (readModel !== undefined)
    next.push(
      `before the next start, ${readModel}: the read model may hold events that this log does not, and is built anew from it`,
    );
  if (tree.leaves !== undefined && tree.leaves > events)
    next.push(
      `before the next start, move ${tree.file} with its -wal and -shm aside, and keep them: they hold ${tree.leaves} events, and this log ${events}; with them the auditor raises an alarm, and raises it again after each plants audit-lift. The new tree does not extend what was signed, which whoever keeps an old checkpoint will see: tell them`,
    );
  for (const line of next) process.stderr.write(`plants: ${line}\n`);
};

const copied = async (
  { json, signal }: Pick<CliContext, 'json' | 'signal'>,
  file: string,
  make: MakeCopy,
  told: (what: string) => string,
): Promise<CopiedLog> => {
  const progress = new Progress('events', process.stderr, json);
  const began = performance.now();
  const onProgress = ({ phase, events, total }: CopyProgress): void => {
    progress.show(phase, events, total);
  };
  try {
    const made = await make({ onProgress, signal });
    const { events, head, bytes } = made;
    progress.end();
    const seconds = Number(((performance.now() - began) / 1_000).toFixed(1));
    const what = `${events} events, up to position ${head || 'the start'}, ${megabytes(bytes)} in ${duration(seconds)},`;
    print({ json }, { file, events, head, bytes, seconds }, told(what));
    return made;
  } finally {
    progress.end();
  }
};

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

import { z } from 'zod';

/** The progress of a long operation: `done` of `total` units, in a phase; `total` is null where it is not known. */
export const OperationProgress = z
  .object({
    phase: z.string(),
    unit: z.enum(['events', 'plants', 'bytes']),
    done: z.number(),
    total: z.number().nullable(),
  })
  .meta({ id: 'OperationProgress', description: 'How far a long operation is.' });

export type OperationProgress = Readonly<z.infer<typeof OperationProgress>>;

/** A long operation: gives its progress, and returns its outcome. To end it early, return from it. */
export type LongOperation<Outcome> = AsyncGenerator<OperationProgress, Outcome, undefined>;

/**
 * Runs work that reports its progress by calls, as a long operation: a reader that is slow gets the newest report, and
 * none of those before. Whoever returns from it early aborts the signal that the work gets, and waits for its end.
 */
export async function* longOperation<Outcome>(
  signal: AbortSignal,
  work: (report: (progress: OperationProgress) => void, signal: AbortSignal) => Promise<Outcome>,
): LongOperation<Outcome> {
  const returned = new AbortController();
  const state: { newest?: OperationProgress | undefined; isOver: boolean } = { isOver: false };
  let wake = (): void => undefined;
  const report = (progress: OperationProgress): void => {
    state.newest = progress;
    wake();
  };
  const outcome = work(report, AbortSignal.any([signal, returned.signal])).finally(() => {
    state.isOver = true;
    wake();
  });
  outcome.catch(() => undefined); // it is awaited below
  try {
    for (;;) {
      const { newest, isOver } = state;
      if (newest) {
        state.newest = undefined;
        yield newest;
      } else if (isOver) return await outcome;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  } finally {
    returned.abort();
    await outcome.catch(() => undefined);
  }
}

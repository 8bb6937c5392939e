import { z } from 'zod';
import { isInProgress, readErasures } from '../erasure/erasures.js';
import { erasedStream } from '../domain/stream.js';
import { type System } from './status.js';
import { OperationProgress } from './long-operation.js';
import { readReports } from './process-report.js';

/** An erasure. */
export const ErasureStatus = z
  .strictObject({
    erasure: z.string().meta({ description: 'Its id.' }),
    state: z.enum(['ordered', 'erased', 'finished', 'cancelled']).meta({
      description:
        'ordered: plants are being deleted, and nothing was erased yet. erased: the log has lost the events, and files of the stores may still hold what they were. finished: nothing is left there either. cancelled: nothing was erased.',
    }),
    reason: z.string(),
    by: z.string().meta({ description: 'Who ordered it.' }),
    orderedAt: z.string().meta({ format: 'date-time' }),
    since: z.string().meta({ format: 'date-time', description: 'When the state was reached.' }),
    events: z
      .number()
      .nullable()
      .meta({ type: ['integer', 'null'], description: 'How many events were erased; null before.' }),
    remains: z.string().nullable().meta({
      description:
        'What has to be done by hand before it is finished, such as a scavenge of EventStoreDB; null where nothing is known.',
    }),
    progress: OperationProgress.nullable().meta({
      description:
        'What the auditor at work does: its phase is deleting (with the plants that are deleted, of how many), waiting (for lists and a checkpoint without them), erasing, scrubbing (the files of the stores) or scavenging (EventStoreDB does). starting where an auditor runs and has not said what it does, unknown where the read model does not answer. Null where no auditor runs.',
    }),
  })
  .meta({
    id: 'ErasureStatus',
    description: 'What has happened to an erasure. It does not say whose it is.',
  });

export type ErasureStatus = Readonly<z.infer<typeof ErasureStatus>>;

/** The state of an erasure; undefined where there is none of this id. Throws what the log throws. */
export const readErasure = async (
  { log, model }: Pick<System, 'log' | 'model'>,
  id: string,
): Promise<ErasureStatus | undefined> => {
  const found = (await readErasures(log)).all.find(({ erasure }) => erasure === id);
  if (!found) return undefined;
  const { erasure, state, reason, by, orderedAt, since, events } = found;
  const remains = state === 'erased' ? await log.pendingManualScrub(erasedStream(erasure)) : undefined;
  // Lists that are away hold up nothing else.
  const reports = isInProgress(found) ? await readReports(model).catch(() => undefined) : [];
  const doing = reports?.flatMap(({ erasures = [] }) => erasures).find((one) => one.erasure === erasure);
  const without = reports ? (reports.some(({ auditor }) => auditor) ? 'starting' : undefined) : 'unknown';
  const phase = doing?.step ?? without;
  return {
    ...{ erasure, state, reason, by, orderedAt: orderedAt.toISOString(), since: since.toISOString() },
    ...{ events: events ?? null, remains: remains ?? null },
    progress:
      phase === undefined ? null : { phase, unit: 'plants', ...(doing?.plants ?? { done: 0, total: null }) },
  };
};

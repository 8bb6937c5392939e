import { z } from 'zod';
import { type CopiedLog } from '../log/backup.js';
import { type Alarm } from '../audit/tree-store.js';
import { type ErasureStatus } from './erasure-status.js';
import { type LongOperation } from './long-operation.js';
import { type OperationsPage } from './past-operations.js';
import { type SystemStatus } from './system-status.js';
import { type Place, type SkipRequest, type UnreadEvent } from './skip-unread.js';
import { type Verification } from './verification.js';

/** An estimate of a rebuild, as `plants rebuild --dry-run --json` prints it. */
export const RebuildEstimate = z
  .object({
    events: z.number().meta({ description: 'How many the log holds.' }),
    sampled: z.number().meta({ description: 'How many were read for the estimate.' }),
    estimatedSeconds: z.number(),
    estimatedSecondsUnderTraffic: z.number().meta({ description: 'While requests never cease.' }),
    active: z.number().nullable().meta({ description: 'The generation that lists are answered from.' }),
    underWay: z.string().nullable().meta({ description: 'The rebuild for which another one is refused.' }),
  })
  .meta({ id: 'RebuildEstimate', description: 'How long a rebuild would take.' });

export type RebuildEstimate = Readonly<z.infer<typeof RebuildEstimate>>;

/** The service cannot be reached, or broke off. The message is one line. */
export class ServiceUnreachable extends Error {
  override readonly name = 'ServiceUnreachable';
}

/** The service refuses a request, for another reason than the state of the system. The message is one line. */
export class ServiceRefused extends Error {
  override readonly name = 'ServiceRefused';

  constructor(
    /** `code` of its problem document; empty where it sent none. */
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/**
 * The operations on a system: carried out in this process (`LocalOperations`), or asked for over HTTP
 * (`RemoteOperations`). Requests resolve once they are recorded in the log; `watch.ts` follows what comes of them.
 *
 * Each throws OperationRefused where the state of the system does not allow it, and what the stores throw or
 * ServiceUnreachable. Long operations throw the reason of their signal once it has aborted.
 */
export interface Operations {
  /** Never rejects for a store that does not answer: the status says so. */
  status(): Promise<SystemStatus>;

  /** The newest operations that began before a position; of all, without it. */
  past(limit: number, before?: string): Promise<OperationsPage>;

  /** Estimates the duration of a rebuild at so many events a second at most; null for no bound. */
  estimate(rate: number | null, signal: AbortSignal): LongOperation<RebuildEstimate>;

  /** Resolves with the id of the rebuild. */
  rebuild(wanted: Readonly<{ rate: number | null; unskip: boolean }>): Promise<string>;

  /** Cancels this rebuild, the one in progress where none is named; resolves with its id. */
  cancel(rebuild?: string): Promise<string>;

  /** Goes back to what the last rebuild replaced; resolves with that rebuild's id. */
  rollback(reason: string): Promise<string>;

  /** Compares the lists with the fold of the log, and with the signed state. */
  verify(signal: AbortSignal): LongOperation<Verification>;

  /** An event that cannot be read, which may be skipped. */
  unread(position: string): Promise<UnreadEvent>;

  /** Resolves with the place of the event. */
  skip(wanted: SkipRequest): Promise<Place>;

  /** The number of events that an erasure of this owner would erase. Throws as its order, UnknownOwner where there are none. */
  countOwned(owner: string): Promise<number>;

  /** Resolves with the id of the erasure. */
  erase(order: Readonly<{ owner: string; reason: string }>): Promise<string>;

  /** Undefined where there is no such erasure. */
  erasure(id: string): Promise<ErasureStatus | undefined>;

  /** Lifts the alarm of the auditor, and resolves with it; undefined where none stands. */
  lift(reason: string): Promise<Alarm | undefined>;

  /** Copies the event log into a new file, which gets its name once it is whole. */
  backup(file: string, signal: AbortSignal): LongOperation<CopiedLog>;
}

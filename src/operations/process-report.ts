import { z } from 'zod';
import { type AuditorStatus } from '../audit/auditor.js';
import { type AppendHealth } from '../ports/event-log.js';
import { type ReadModel } from '../ports/read-model.js';
import { type ProjectorStatus } from '../projector/projector.js';
import { type LastVerify } from './last-runs.js';
import { type RebuildProgress } from '../projector/rebuilder.js';

/** What the processes of a system tell about themselves, as text in the read model's store. */
const ProcessReport = z.object({
  host: z.string(),
  pid: z.number(),
  roles: z.array(z.string()),
  version: z.string(),
  /** Where it listens. */
  address: z.string(),
  since: z.string(),
  /** Null where the process leaves projecting to others. */
  projector: z
    .object({
      state: z.string(),
      since: z.string(),
      generation: z.number().optional(),
      position: z.string().optional(),
      stream: z.string().optional(),
      revision: z.string().optional(),
      reason: z.string().optional(),
    })
    .nullable(),
  /** What it rebuilds. */
  rebuild: z
    .object({
      rebuild: z.string(),
      phase: z.string(),
      generation: z.number().optional(),
      position: z.string(),
      events: z.number(),
      elapsedMs: z.number(),
      share: z.number(),
      secondsLeft: z.number().optional(),
      problem: z.string().optional(),
    })
    .nullable(),
  /** Why a rebuild, or what follows one, does not get on; absent where nothing is wrong. */
  rebuildProblem: z.string().optional(),
  /** The last comparison of the lists with the log that is recorded in its DATA_DIR; absent where none is. */
  verified: z.object({ at: z.string(), differing: z.number() }).optional(),
  /** Null where the process is no auditor, absent where it is of a version that knows none. */
  auditor: z
    .object({
      state: z.string(),
      since: z.string(),
      size: z.number(),
      position: z.string(),
      checkpoint: z.object({ size: z.number(), signedAt: z.string() }).optional(),
      recheckedAt: z.string().optional(),
      rechecking: z.object({ since: z.string(), events: z.number() }).optional(),
      reason: z.string().optional(),
      notice: z.string().optional(),
      times: z.object({ count: z.number(), position: z.string(), message: z.string() }).optional(),
      signing: z
        .object({
          key: z.string(),
          since: z.string().optional(),
          recorded: z.object({ size: z.number(), at: z.string() }).optional(),
          before: z.object({ key: z.string(), until: z.string(), confirmed: z.boolean() }).optional(),
          warnings: z.array(z.string()),
        })
        .optional(),
      alarm: z
        .object({
          kind: z.string(),
          index: z.number().optional(),
          position: z.string().optional(),
          stream: z.string().optional(),
          revision: z.string().optional(),
          message: z.string(),
          raisedAt: z.string(),
        })
        .optional(),
    })
    .nullish(),
  /** Whether its appends to the event log work. Absent where the process is of a version that does not say so. */
  eventLog: z
    .object({
      state: z.string(),
      since: z.string(),
      reason: z.string().optional(),
      restartHelps: z.boolean(),
    })
    .optional(),
});

/** What one process tells about itself, and what it is called. */
export type ProcessReport = Readonly<z.infer<typeof ProcessReport> & { process: string }>;

/** What a process is: all of it stays the same for as long as it runs. */
export type ProcessIdentity = Readonly<
  Pick<ProcessReport, 'host' | 'pid' | 'version' | 'address' | 'since'> & { roles: readonly string[] }
>;

/** The text that a process tells. */
export const reportText = (
  identity: ProcessIdentity,
  projector:
    | {
        readonly status: ProjectorStatus;
        readonly rebuild: RebuildProgress | undefined;
        readonly rebuildProblem?: string | undefined;
      }
    | undefined,
  auditor?: { readonly status: AuditorStatus },
  eventLog?: AppendHealth,
  verified?: LastVerify,
): string =>
  JSON.stringify(
    {
      ...identity,
      projector: projector?.status ?? null,
      rebuild: projector?.rebuild ?? null,
      rebuildProblem: projector?.rebuildProblem,
      auditor: auditor ? shownAuditor(auditor.status) : null,
      eventLog,
      verified,
    },
    (_name, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
  );

/** Without the note of the checkpoint, which is at /log/checkpoint. */
const shownAuditor = ({ checkpoint, ...status }: AuditorStatus) => ({
  ...status,
  ...(checkpoint ? { checkpoint: { size: checkpoint.size, signedAt: checkpoint.signedAt } } : {}),
});

/** Reads what all processes tell. What is not understood was told by another version of the service: it is left out. */
export const readReports = async (model: ReadModel): Promise<ProcessReport[]> =>
  (await model.reports()).flatMap(({ process, text }) => {
    const report = ProcessReport.safeParse(parsed(text));
    return report.success ? [{ ...report.data, process }] : [];
  });

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** The states of a projector that does the work, which is to say, has the lease. */
const WORKING = ['catching_up', 'live', 'blocked'];

/** Who projects, as far as the processes tell. */
export const workingProjector = (reports: readonly ProcessReport[]): ProcessReport | undefined =>
  reports.find(({ projector }) => projector && WORKING.includes(projector.state));

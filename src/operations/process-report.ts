import { z } from 'zod';
import { type AuditorStatus } from '../audit/auditor-status.js';
import { type AppendHealth } from '../ports/event-log.js';
import { type Coordination } from '../ports/coordination.js';
import { type ProjectorStatus } from '../projector/projector.js';
import { type LastVerify } from './last-runs.js';
import { type RebuildProgress } from '../projector/runner.js';

/** A position, as the API's document describes it. */
export const PositionText = z
  .string()
  .meta({ description: 'A position of the log; empty before its first event.' });

/** The report of a process, as text in the read model's store. Members are optional that older versions do not report. */
const Report = z.object({
  host: z.string(),
  pid: z.number(),
  roles: z.array(z.string()),
  version: z.string(),
  address: z.string().meta({ description: 'Where it listens.' }),
  since: z.string(),
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
    .nullable()
    .meta({ description: 'Null where the process leaves projecting to others.' }),
  rebuild: z
    .object({
      rebuild: z.string(),
      phase: z.string(),
      generation: z.number().optional(),
      position: PositionText,
      events: z.number(),
      elapsedMs: z.number(),
      share: z.number(),
      secondsLeft: z.number().optional(),
      problem: z.string().optional(),
    })
    .nullable()
    .meta({ description: 'What it rebuilds.' }),
  rebuildProblem: z.string().optional().meta({
    description:
      'Why generations of the lists cannot be looked after, as a rebuild and what follows it demand; absent where they can.',
  }),
  erasureProblem: z
    .string()
    .optional()
    .meta({ description: 'Why an erasure is failing; absent where none is.' }),
  verified: z
    .object({ at: z.string(), differing: z.number() })
    .optional()
    .meta({ description: 'The last comparison of the lists with the log that its DATA_DIR records.' }),
  auditor: z
    .object({
      state: z.string(),
      since: z.string(),
      size: z.number().meta({ description: 'Leaves in its tree.' }),
      position: PositionText,
      checkpoint: z
        .object({ size: z.number(), signedAt: z.string() })
        .optional()
        .meta({ description: 'The last that it signed.' }),
      recheckedAt: z
        .string()
        .optional()
        .meta({ description: 'When it last found the whole log as it was signed.' }),
      rechecking: z.object({ since: z.string(), events: z.number() }).optional().meta({
        description:
          'The reading of the whole log that is under way: since when, and how many events it has compared with the tree.',
      }),
      reason: z.string().optional(),
      notice: z.string().optional().meta({
        description: 'What a person should know of its start, such as that its tree was begun anew.',
      }),
      times: z.object({ count: z.number(), position: PositionText, message: z.string() }).optional().meta({
        description:
          'Events whose times contradict the checkpoints that were signed around them, and the first of them; absent where none does.',
      }),
      witnessing: z
        .object({
          required: z.number().meta({ description: 'How many witnesses have to cosign.' }),
          size: z.number().optional().meta({ description: 'The last tree that so many have cosigned.' }),
          witnesses: z.array(
            z.object({
              witness: z.string().meta({ description: 'Name and id of its key.' }),
              state: z.string().meta({
                description: 'waiting, cosigns, unreachable, refuses or disagrees (docs/witnesses.md).',
              }),
              size: z.number().optional().meta({ description: 'The last tree that it has cosigned.' }),
              at: z.string().optional().meta({ description: 'When, by its clock.' }),
              reason: z.string().optional().meta({ description: 'Why it does not cosign.' }),
            }),
          ),
        })
        .optional()
        .meta({ description: 'Absent where no witnesses are set.' }),
      signing: z
        .object({
          key: z.string().meta({ description: 'Name and id of the key that it signs with.' }),
          since: z.string().optional().meta({
            description:
              'When the log first recorded a checkpoint by this key of this tree; absent before that.',
          }),
          recorded: z
            .object({ size: z.number(), at: z.string() })
            .optional()
            .meta({ description: 'The last checkpoint by this key that the log records.' }),
          before: z.object({ key: z.string(), until: z.string(), confirmed: z.boolean() }).optional().meta({
            description: 'What signed before that; confirmed where that key has signed the change, too.',
          }),
          warnings: z.array(z.string()),
        })
        .optional(),
      alarm: z
        .object({
          kind: z.string(),
          index: z.number().optional(),
          position: PositionText.optional(),
          stream: z.string().optional(),
          revision: z.string().optional(),
          message: z.string(),
          raisedAt: z.string(),
        })
        .optional()
        .meta({ description: 'The log is not what was signed: nothing more is until it is lifted.' }),
    })
    .nullish()
    .meta({ description: 'Null where the process is no auditor.' }),
  eventLog: z
    .object({
      state: z.string().meta({ description: 'ok, failing or stopped (until a restart).' }),
      since: z.string(),
      reason: z.string().optional(),
      restartHelps: z
        .boolean()
        .meta({ description: 'Whether a restart of the process is expected to help.' }),
    })
    .optional()
    .meta({ description: 'Whether its appends to the event log work.' }),
});

/** A process and its report, as GET /operations/status shows them. */
export const ProcessReport = z.object({ process: z.string(), ...Report.shape });

export type ProcessReport = Readonly<z.infer<typeof ProcessReport>>;

/** What does not change while a process runs. */
export type ProcessIdentity = Readonly<
  Pick<ProcessReport, 'host' | 'pid' | 'version' | 'address' | 'since'> & {
    roles: readonly string[];
  }
>;

/** A process's report as text. */
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
  eraser?: { readonly problem: string | undefined },
): string =>
  JSON.stringify(
    {
      ...identity,
      projector: projector?.status ?? null,
      rebuild: projector?.rebuild ?? null,
      rebuildProblem: projector?.rebuildProblem,
      auditor: auditor ? shownAuditor(auditor.status) : null,
      erasureProblem: eraser?.problem,
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

/** Reads the reports of all processes, without those of another version in another form. */
export const readReports = async (model: Coordination): Promise<ProcessReport[]> =>
  (await model.reports()).flatMap(({ process, text }) => {
    const report = Report.safeParse(parsed(text));
    return report.success ? [{ ...report.data, process }] : [];
  });

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** The states of a projector that has the lease. */
const WORKING = ['catching_up', 'live'];

/** The process that projects, by the reports. */
export const workingProjector = (reports: readonly ProcessReport[]): ProcessReport | undefined =>
  reports.find(({ projector }) => projector && WORKING.includes(projector.state));

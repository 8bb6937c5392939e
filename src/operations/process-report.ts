import { z } from 'zod';
import { type AuditorStatus } from '../audit/auditor-status.js';
import { type AppendHealth } from '../log/event-log.js';
import { type Coordination } from '../lists/coordination.js';
import { type Eraser } from '../erasure/eraser.js';
import { type ProjectorStatus } from '../projection/projector.js';
import { type LastVerify, type ProvenBackup } from './last-runs.js';
import { type RebuildProgress } from '../projection/runner.js';

/** A position, as the API's document describes it. */
export const PositionText = z.string().describe('A position of the log; empty before its first event.');

const optional = <Schema extends z.ZodType>(description: string, schema: Schema) =>
  schema.optional().describe(description);

const Witnessing = z.object({
  required: z.number().describe('How many witnesses have to cosign.'),
  size: optional('The last tree that so many have cosigned.', z.number()),
  witnesses: z.array(
    z.object({
      witness: z.string().describe('Name and id of its key.'),
      state: z.string().describe('waiting, cosigns, unreachable, refuses or disagrees (docs/witnesses.md).'),
      size: optional('The last tree that it has cosigned.', z.number()),
      at: optional('When, by its clock.', z.string()),
      reason: optional('Why it does not cosign.', z.string()),
    }),
  ),
});

const Signing = z.object({
  key: z.string().describe('Name and id of the key that it signs with.'),
  since: optional(
    'When the log first recorded a checkpoint by this key of this tree; absent before that.',
    z.string(),
  ),
  recorded: optional(
    'The last checkpoint by this key that the log records.',
    z.object({ size: z.number(), at: z.string() }),
  ),
  before: optional(
    'What signed before that; confirmed where that key has signed the change, too.',
    z.object({ key: z.string(), until: z.string(), confirmed: z.boolean() }),
  ),
  warnings: z.array(z.string()),
});

const Alarm = z.object({
  kind: z.string(),
  index: z.number().optional(),
  position: PositionText.optional(),
  stream: z.string().optional(),
  revision: z.string().optional(),
  message: z.string(),
  raisedAt: z.string(),
});

const Auditor = z.object({
  state: z.string(),
  since: z.string(),
  size: z.number().describe('Leaves in its tree.'),
  position: PositionText,
  checkpoint: optional('The last that it signed.', z.object({ size: z.number(), signedAt: z.string() })),
  recheckedAt: optional('When it last found the whole log as it was signed.', z.string()),
  rechecking: optional(
    'The reading of the whole log that is in progress: since when, and how many events it has compared with the tree.',
    z.object({ since: z.string(), events: z.number() }),
  ),
  reason: z.string().optional(),
  notice: optional(
    'What a person should know of its start, such as that its tree was begun again.',
    z.string(),
  ),
  times: optional(
    'Events whose times contradict the checkpoints that were signed around them, and the first of them; absent where none does.',
    z.object({ count: z.number(), position: PositionText, message: z.string() }),
  ),
  witnessing: optional('Absent where no witnesses are set.', Witnessing),
  signing: Signing.optional(),
  alarm: optional('The log is not what was signed: nothing more is until it is lifted.', Alarm),
});

const Projector = z.object({
  state: z.string(),
  since: z.string(),
  generation: z.number().optional(),
  position: z.string().optional(),
  stream: z.string().optional(),
  revision: z.string().optional(),
  reason: z.string().optional(),
});

const Rebuild = z.object({
  rebuild: z.string(),
  phase: z.string(),
  generation: z.number().optional(),
  position: PositionText,
  events: z.number(),
  elapsedMs: z.number(),
  share: z.number(),
  secondsLeft: z.number().optional(),
  problem: z.string().optional(),
});

const Appends = z.object({
  state: z.string().describe('ok, failing or stopped (until a restart).'),
  since: z.string(),
  reason: z.string().optional(),
  restartHelps: z.boolean().describe('Whether a restart of the process is expected to help.'),
});

/** The report of a process, as text in the read model's store. Members are optional that older versions do not report. */
const Report = z.object({
  host: z.string(),
  pid: z.number(),
  roles: z.array(z.string()),
  version: z.string(),
  address: z.string().describe('Where it listens.'),
  since: z.string(),
  projector: Projector.nullable().describe('Null where the process leaves projecting to others.'),
  rebuild: Rebuild.nullable().describe('What it rebuilds.'),
  rebuildProblem: optional(
    'Why generations of the lists cannot be looked after, as a rebuild and what follows it demand; absent where they can.',
    z.string(),
  ),
  erasureProblem: optional('Why an erasure is failing; absent where none is.', z.string()),
  erasures: optional(
    'The erasures that it carries out, and how many of how many plants are deleted, while some are.',
    z.array(
      z.object({
        erasure: z.string(),
        step: z.string(),
        plants: z.object({ done: z.number(), total: z.number() }).optional(),
      }),
    ),
  ),
  verified: optional(
    'The last comparison of the lists with the log that its DATA_DIR records.',
    z.object({ at: z.string(), differing: z.number() }),
  ),
  provenBackup: optional(
    'The last backup that its DATA_DIR records as proven: up to when it holds everything, and how many events.',
    z.object({ at: z.string(), events: z.number() }),
  ),
  auditor: Auditor.nullish().describe('Null where the process is no auditor.'),
  eventLog: optional('Whether its appends to the event log work.', Appends),
});

/** A process and its report, as GET /operations/status shows them. */
export const ProcessReport = z.object({ process: z.string(), ...Report.shape });

export type ProcessReport = Readonly<z.infer<typeof ProcessReport>>;

/** The facts that do not change while a process runs. */
export type ProcessIdentity = Readonly<
  Pick<ProcessReport, 'host' | 'pid' | 'version' | 'address' | 'since'> & {
    roles: readonly string[];
  }
>;

/** The parts of a process that it reports; each is undefined where it has none. */
export interface Reported {
  readonly projector?:
    | {
        readonly status: ProjectorStatus;
        readonly rebuild: RebuildProgress | undefined;
        readonly rebuildProblem?: string | undefined;
      }
    | undefined;
  readonly auditor?: { readonly status: AuditorStatus } | undefined;
  readonly eraser?: Pick<Eraser, 'problem' | 'progress'> | undefined;
  readonly eventLog?: AppendHealth;
  readonly verified?: LastVerify | undefined;
  readonly provenBackup?: ProvenBackup | undefined;
}

/** A process's report as text. */
export const reportText = (
  identity: ProcessIdentity,
  { projector, auditor, eraser, ...others }: Reported,
): string =>
  JSON.stringify(
    {
      ...identity,
      projector: projector?.status ?? null,
      rebuild: projector?.rebuild ?? null,
      rebuildProblem: projector?.rebuildProblem,
      auditor: auditor ? shownAuditor(auditor.status) : null,
      erasureProblem: eraser?.problem,
      erasures: eraser?.progress,
      ...others,
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

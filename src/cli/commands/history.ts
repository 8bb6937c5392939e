import { type Command } from 'commander';
import { type Instant } from '../../history/instant.js';
import { instant, nonEmptyText, plantId, type PointInTime, pointInTime } from '../arguments.js';
import { EXITS, UsageError } from '../exit-status.js';
import { withLog } from '../with-stores.js';

/** Defines `plants history`. */
export const historyCommand = (command: Command): void => {
  command
    .option('--owner <name>', "events of this owner's plants and requests", nonEmptyText)
    .option('--plant <id>', 'events of this plant; needs --owner', plantId)
    .option('--type <type>', 'events of this type, such as PlantCreated', nonEmptyText)
    .option('--actor <subject>', 'events that this subject asked for', nonEmptyText)
    .option('--since <instant>', 'decided then or later: RFC 3339', instant)
    .option('--until <instant>', 'decided then or earlier: RFC 3339', instant)
    .option('--after <position>', 'events after this position')
    .option('--follow', 'go on with what is still to come, until Ctrl-C')
    .option(
      '--as-of <point>',
      "an owner's list as it was after a position, or at an RFC 3339 instant",
      pointInTime,
    )
    .option('--json', 'print JSON on a terminal too: a CloudEvent in each line, or a plant')
    .addHelpText(
      'after',
      `
Without a terminal it prints JSON. An event that cannot be read is shown as it is stored, and marked. An event that
does not say when it was decided passes --since and --until. --as-of an instant is the fold of all events that
--until the same instant shows; it reads the whole log.

Example:
  npx plants history --owner alice --since 2026-01-31T00:00:00Z
  npx plants history --owner alice --as-of 2026-01-31T12:00:00Z
${EXITS}`,
    )
    .action(history);
};

interface HistoryOptions {
  readonly owner?: string;
  readonly plant?: number;
  readonly type?: string;
  readonly actor?: string;
  readonly since?: Instant;
  readonly until?: Instant;
  readonly after?: string;
  readonly follow?: true;
  readonly asOf?: PointInTime;
  readonly json?: true;
}

const history = (options: HistoryOptions): Promise<void> => {
  const { owner, plant, type, actor, since, until, after, follow, asOf } = options;
  const filter = { owner, plant, type, actor, since, until };
  if (plant !== undefined && owner === undefined)
    throw new UsageError('--plant needs --owner: plants of different owners may have the same id');
  if (!asOf)
    return withLog(options, async (context) =>
      (await import('../history.js')).history(context, { ...filter, after, follow: follow ?? false }),
    );
  if (
    owner === undefined ||
    [plant, type, actor, since, until, after, follow].some((one) => one !== undefined)
  )
    throw new UsageError('--as-of needs --owner, and goes with no other option but --json');
  return withLog(options, async (context) => (await import('../history.js')).listAsOf(context, owner, asOf));
};

import { type Command } from 'commander';
import { type EventLogLocation } from '../../adapters/store-locations.js';
import { openAuditKey, originOf } from '../../audit/key.js';
import { formatVerifierKey } from '../../audit/note.js';
import { nonEmptyText } from '../arguments.js';
import { EXITS } from '../exit-status.js';
import { settings } from '../settings.js';
import { assertLogExists, withTree } from '../with-stores.js';

/** Adds `plants audit-key` and `plants audit-lift`. */
export const addAuditKey = (program: Command): void => {
  program
    .command('audit-key')
    .description('print the key that the checkpoints of this log are verified with')
    .option('--json', 'print {origin, vkey}')
    .addHelpText(
      'after',
      `
One line, as C2SP signed-note has it: name+id+key. Give it to auditors by a way that they trust. The private key is made
in DATA_DIR where there is none yet.

Example:
  npx plants audit-key > plants.vkey
${EXITS}`,
    )
    .action(auditKey);

  program
    .command('audit-lift')
    .description('lift the alarm of an auditor, once it is known why it was raised')
    .requiredOption('--reason <text>', 'why, for the record', nonEmptyText)
    .option('--json', 'print {lifted}: the alarm, or null if none stood')
    .addHelpText(
      'after',
      `
The auditor then reads the whole log before it signs anything, and raises the alarm again if the log is still not what
was signed: restore it first. Use the auditor's DATA_DIR.

Example:
  npx plants audit-lift --reason 'log restored from the backup of last night, ticket 123'
${EXITS}`,
    )
    .action(liftAlarm);
};

const auditKey = async ({ json }: { readonly json?: true }): Promise<void> => {
  const { eventLog, dataDir, auditOrigin } = settings();
  const { file, key, created } = await openAuditKey(dataDir, auditOrigin ?? (await originOfLog(eventLog)));
  if (created) process.stderr.write(`made the audit key ${file}\n`);
  const vkey = formatVerifierKey(key);
  process.stdout.write(`${json ? JSON.stringify({ origin: key.name, vkey }) : vkey}\n`);
};

/** The origin of the log's checkpoints where AUDIT_ORIGIN does not name it. */
const originOfLog = async (location: EventLogLocation): Promise<string> => {
  assertLogExists(location);
  const { openEventLog } = await import('../../adapters/stores.js');
  const log = await openEventLog(location);
  try {
    return originOf(log.identity());
  } finally {
    await log.close();
  }
};

interface LiftOptions {
  readonly reason: string;
  readonly json?: true;
}

const liftAlarm = ({ reason, json }: LiftOptions): Promise<void> =>
  withTree(
    (tree) => `there is no tree ${tree}: give this command the auditor's DATA_DIR`,
    async (_, tree) => {
      const { operatorHere } = await import('../operator.js');
      const lifted = await tree.lift(operatorHere().actor.sub, reason);
      if (json) process.stdout.write(`${JSON.stringify({ lifted: lifted ?? null })}\n`);
      else
        process.stdout.write(
          lifted
            ? `lifted: ${lifted.message}\nan auditor now reads the whole log, and signs again if it is as it was\n`
            : 'no alarm stands\n',
        );
    },
  );

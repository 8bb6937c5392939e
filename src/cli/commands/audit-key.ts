import { type Command } from 'commander';
import { type EventLogLocation } from '../../adapters/store-locations.js';
import { openAuditKey, originOf } from '../../audit/key.js';
import { formatVerifierKey } from '../../audit/note.js';
import { nonEmptyText } from '../arguments.js';
import { EXITS } from '../exit-status.js';
import { settings } from '../settings.js';
import { print } from '../context.js';
import { operable, type OperateOptions, type Operating, withOperations } from '../with-operations.js';
import { assertLogExists } from '../with-stores.js';

/** Defines `plants audit-key`. */
export const auditKeyCommand = (command: Command): void => {
  command
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
};

/** Defines `plants audit-lift`. */
export const auditLiftCommand = (command: Command): void => {
  operable(
    command
      .requiredOption('--reason <text>', 'why, for the record', nonEmptyText)
      .option('--json', 'print {lifted}: the alarm, or null if none stood'),
  )
    .addHelpText(
      'after',
      `
The auditor then reads the whole log before it signs anything, and raises the alarm again if the log is still not what
was signed: restore it first. Use the auditor's DATA_DIR, or the --url of a process with the role auditor.

Example:
  npx plants audit-lift --reason 'log restored from the backup of last night, ticket 123'
${EXITS}`,
    )
    .action((options: OperateOptions & { readonly reason: string }) =>
      withOperations(
        options,
        { scope: 'plants:operate', stores: { log: 'write', tree: true } },
        (operating) => lift(operating, options.reason),
      ),
    );
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
  const log = await openEventLog(location, { access: 'read' });
  try {
    return originOf(log.identity());
  } finally {
    await log.close();
  }
};

/** Lifts the alarm of the auditor, if one stands. */
const lift = async (operating: Operating, reason: string): Promise<boolean> => {
  const lifted = await operating.operations.lift(reason);
  print(
    operating,
    { lifted: lifted ?? null },
    lifted
      ? `lifted: ${lifted.message}\nan auditor now reads the whole log, and signs again if it is as it was`
      : 'no alarm stands',
  );
  return true;
};

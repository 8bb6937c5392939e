import { type Command } from 'commander';
import { openAuditKey, originOf } from '../../audit/key.js';
import { formatVerifierKey } from '../../transparency/note.js';
import { EXITS } from '../exit-status.js';
import { settings } from '../settings.js';
import { print } from '../terminal.js';
import { withLog } from '../with-stores.js';

/** Defines `plants audit-key`. */
export const define = (command: Command): void => {
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

const auditKey = async (options: { readonly json?: true }): Promise<void> => {
  const { dataDir, auditOrigin } = settings();
  const origin = auditOrigin ?? (await withLog((log) => Promise.resolve(originOf(log.identity()))));
  const { file, key, created } = await openAuditKey(dataDir, origin);
  if (created) process.stderr.write(`made the audit key ${file}\n`);
  const vkey = formatVerifierKey(key);
  print(options, { origin: key.name, vkey }, vkey);
};

import { Command } from 'commander';
import { addAuditKey } from './commands/audit-key.js';
import { addBackup } from './commands/backup.js';
import { addCheck } from './commands/check.js';
import { addCompletion } from './commands/completion.js';
import { addCopy } from './commands/copy.js';
import { addExport } from './commands/export.js';
import { addHistory } from './commands/history.js';
import { addRebuild } from './commands/rebuild.js';
import { addServe } from './commands/serve.js';
import { addSkip } from './commands/skip.js';
import { addStatus } from './commands/status.js';
import { addToken } from './commands/token.js';
import { addVerify } from './commands/verify.js';
import { EXIT, EXITS, jsonErrors, outcomeOf } from './exit-status.js';
import { version } from './package.js';
import { printError } from './print-error.js';

const program = new Command('plants')
  .description('An event-sourced plant store.')
  .version(version)
  .showHelpAfterError('(plants --help tells more)')
  .configureOutput(jsonErrors ? { writeErr: () => undefined } : {})
  .addHelpText('after', EXITS)
  .exitOverride();

// In the order of the help.
for (const add of [
  addServe,
  addToken,
  addCopy,
  addStatus,
  addRebuild,
  addVerify,
  addSkip,
  addBackup,
  addHistory,
  addExport,
  addCheck,
  addAuditKey,
  addCompletion,
])
  add(program);

// A reader that ends early (plants … | head) is not a failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(EXIT.ok);
});

try {
  await program.parseAsync();
} catch (error) {
  const { message, exitStatus } = outcomeOf(error);
  if (message !== undefined) printError(message, exitStatus);
  process.exitCode = exitStatus;
}

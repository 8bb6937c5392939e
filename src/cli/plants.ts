import { Command } from 'commander';
import { addCommands } from './commands/all.js';
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

const [first = '', second = ''] = process.argv.slice(2).filter((word) => !word.startsWith('-'));
await addCommands(program, first === 'help' ? second : first);

// A reader that ends early (plants … | head) is not a failure.
process.stdout.on('error', ({ code = 'failed' }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') process.exit(EXIT.ok);
  printError(`standard output cannot be written (${code})`, EXIT.failed);
  process.exit(EXIT.failed);
});

try {
  await program.parseAsync();
} catch (error) {
  const { message, exitStatus } = outcomeOf(error);
  if (message !== undefined) printError(message, exitStatus);
  process.exitCode = exitStatus;
}

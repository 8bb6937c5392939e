import { type Command, Help } from 'commander';

/** A command's line in `--help`, and its file, which is loaded only where it runs: loading takes most of the time. */
type CommandEntry = readonly [
  description: string,
  file: () => Promise<{ readonly define: (command: Command) => void }>,
  /** Its arguments. */
  argument?: string,
];

/** In the order of the help. */
const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  serve: ['run the service', () => import('./serve.js')],
  token: ['make a token, signed with the local key of DATA_DIR', () => import('./token.js')],
  console: [
    'open the console of the running service in the browser, signed in with the local key of DATA_DIR',
    () => import('./console.js'),
  ],
  demo: [
    'start a throw-away service with houseplants of several owners, and open its console',
    () => import('./demo.js'),
  ],
  copy: ['copy an event log into another one, and compare them at the end', () => import('./copy.js')],
  status: ['show processes, lists, rebuilds and what is wrong', () => import('./status.js')],
  rebuild: [
    'rebuild the lists while the old ones are answered, verify them, and switch over',
    () => import('./rebuild.js'),
  ],
  rollback: ['go back to the lists from before the last rebuild', () => import('./rollback.js')],
  verify: ['compare the lists with the event log, and with the signed state', () => import('./verify.js')],
  skip: ['leave out of the lists an event that cannot be read', () => import('./skip.js')],
  erase: ['remove everything of an owner from all stores; earlier proofs hold', () => import('./erase.js')],
  backup: ['copy the event log into one file, while the service writes to it', () => import('./backup.js')],
  'check-backup': [
    'prove what a backup holds, and what it lacks of what was signed',
    () => import('./check-backup.js'),
    '<file>',
  ],
  restore: ['make the event log again from a backup', () => import('./restore.js')],
  history: ["show what has happened, or an owner's list as it was", () => import('./history.js')],
  export: [
    'write events into one file, with the proof that they are those that were signed',
    () => import('./export.js'),
  ],
  check: [
    'verify a file of plants export, or a list proof, with no server, no network and no database',
    () => import('./check.js'),
    '<file>',
  ],
  'audit-key': [
    'print the key that the checkpoints of this log are verified with',
    () => import('./audit-key.js'),
  ],
  'audit-lift': [
    'lift the alarm of an auditor, once it is known why it was raised',
    () => import('./audit-lift.js'),
  ],
  witness: [
    'cosign the checkpoints of other logs, so that none of them shows two histories',
    () => import('./witness.js'),
  ],
  monitor: [
    'follow a log from outside: each checkpoint has to go on from the last one',
    () => import('./monitor.js'),
    '<url>',
  ],
};

/** The line in `--help` of the command that completes the others. */
const COMPLETION = 'print the script that lets a shell complete commands and options';

/**
 * Adds the commands to `program`: the one that is `wanted` with its options, the others with what `--help` says of them
 * alone. Undefined adds all with their options, as a completion needs them.
 */
export const addCommands = async (program: Command, wanted?: string): Promise<Command> => {
  const isWhole = wanted === undefined || wanted === 'completion' || wanted === 'complete';
  program.configureHelp({ subcommandTerm: termOf });
  for (const [name, [description, file]] of Object.entries(COMMANDS)) {
    const command = program.command(name).description(description);
    if (isWhole || name === wanted) (await file()).define(command);
  }
  if (isWhole) (await import('./completion.js')).addCompletion(program, COMPLETION);
  else program.command('completion').description(COMPLETION);
  return program;
};

/** The name of a command in `--help`, whether its options are loaded or not. */
const termOf = (command: Command): string => {
  const name = command.name();
  if (name === 'completion') return 'completion <shell>';
  const entry = COMMANDS[name];
  if (!entry) return new Help().subcommandTerm(command);
  const [, , argument] = entry;
  return `${name} [options]${argument === undefined ? '' : ` ${argument}`}`;
};

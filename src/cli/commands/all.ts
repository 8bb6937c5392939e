import { type Command, Help } from 'commander';

/** What `--help` says of the command that completes the others. */
const COMPLETION = 'print what makes a shell complete commands and options';

/** A command, whose file is loaded only where it runs: most of a short command is loading. */
interface CommandEntry {
  readonly name: string;
  readonly description: string;
  /** What it takes beside options. */
  readonly argument?: string;
  readonly define: () => Promise<(command: Command) => void>;
}

/** In the order of the help. */
const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'serve',
    description: 'run the service',
    define: async () => (await import('./serve.js')).serveCommand,
  },
  {
    name: 'token',
    description: 'make a token, signed with the local key of DATA_DIR',
    define: async () => (await import('./token.js')).tokenCommand,
  },
  {
    name: 'console',
    description:
      'open the console of the running service in the browser, signed in with the local key of DATA_DIR',
    define: async () => (await import('./console.js')).consoleCommand,
  },
  {
    name: 'demo',
    description: 'start a throw-away service with houseplants of several owners, and open its console',
    define: async () => (await import('./demo.js')).demoCommand,
  },
  {
    name: 'copy',
    description: 'copy an event log into another one, and compare them at the end',
    define: async () => (await import('./copy.js')).copyCommand,
  },
  {
    name: 'status',
    description: 'show processes, lists, rebuilds and what is wrong',
    define: async () => (await import('./status.js')).statusCommand,
  },
  {
    name: 'rebuild',
    description: 'build the lists anew beside those that are answered, verify them, and switch over',
    define: async () => (await import('./rebuild.js')).rebuildCommand,
  },
  {
    name: 'rollback',
    description: 'answer lists from what the last rebuild replaced',
    define: async () => (await import('./rebuild.js')).rollbackCommand,
  },
  {
    name: 'verify',
    description: 'compare the lists with the fold of the event log, and with the state that was signed',
    define: async () => (await import('./verify.js')).verifyCommand,
  },
  {
    name: 'skip',
    description: 'leave an event that cannot be read out of the lists',
    define: async () => (await import('./skip.js')).skipCommand,
  },
  {
    name: 'erase',
    description: 'remove everything of an owner from all stores; proofs of before still verify',
    define: async () => (await import('./erase.js')).eraseCommand,
  },
  {
    name: 'backup',
    description: 'copy the event log into one file, while the service writes to it',
    define: async () => (await import('./backup.js')).backupCommand,
  },
  {
    name: 'restore',
    description: 'make the event log anew from a backup',
    define: async () => (await import('./backup.js')).restoreCommand,
  },
  {
    name: 'history',
    description: "show what has happened, or an owner's list as it was",
    define: async () => (await import('./history.js')).historyCommand,
  },
  {
    name: 'export',
    description: 'write events into one file, with what proves that they are those that were signed',
    define: async () => (await import('./export.js')).exportCommand,
  },
  {
    name: 'check',
    description:
      'prove what a file of plants export, or a list proof, says, with no server, no network and no database',
    argument: '<file>',
    define: async () => (await import('./check.js')).checkCommand,
  },
  {
    name: 'audit-key',
    description: 'print the key that the checkpoints of this log are verified with',
    define: async () => (await import('./audit-key.js')).auditKeyCommand,
  },
  {
    name: 'audit-lift',
    description: 'lift the alarm of an auditor, once it is known why it was raised',
    define: async () => (await import('./audit-key.js')).auditLiftCommand,
  },
  {
    name: 'witness',
    description: 'cosign the checkpoints of other logs, so that none of them shows two histories',
    define: async () => (await import('./witness.js')).witnessCommand,
  },
  {
    name: 'monitor',
    description: 'follow a log from outside: each checkpoint has to go on from the last one',
    argument: '<url>',
    define: async () => (await import('./monitor.js')).monitorCommand,
  },
];

const ALL_LOADED = ['completion', 'complete'];

/**
 * Adds the commands to `program`: the one that is `wanted` with its options, the others with what `--help` says of them
 * alone. Undefined adds all with their options, as a completion needs them.
 */
export const addCommands = async (program: Command, wanted?: string): Promise<Command> => {
  const isWhole = wanted === undefined || ALL_LOADED.includes(wanted);
  program.configureHelp({ subcommandTerm: termOf });
  for (const { name, description, define } of COMMANDS) {
    const command = program.command(name).description(description);
    if (isWhole || name === wanted) (await define())(command);
  }
  if (isWhole) (await import('./completion.js')).addCompletion(program, COMPLETION);
  else program.command('completion').description(COMPLETION);
  return program;
};

/** What `--help` calls a command, whether its options are loaded or not. */
const termOf = (command: Command): string => {
  const name = command.name();
  if (name === 'completion') return 'completion <shell>';
  const entry = COMMANDS.find((one) => one.name === name);
  if (!entry) return new Help().subcommandTerm(command);
  return `${name} [options]${entry.argument === undefined ? '' : ` ${entry.argument}`}`;
};

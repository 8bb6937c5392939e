import tab from '@bomb.sh/tab/commander';
import { type Command } from 'commander';
import { BASH_COMPLETION } from '../bash-completion.js';
import { EXITS } from '../exit-status.js';

/** Adds `plants completion`, which completes all commands that were added before. */
export const addCompletion = (program: Command): void => {
  const completions = tab(program, { completionCommandName: 'completion' });
  program.commands
    .find((command) => command.name() === 'completion')
    ?.description('print what makes a shell complete commands and options')
    .action((shell: string) => {
      if (shell === 'bash') process.stdout.write(BASH_COMPLETION);
      else completions.setup('plants', 'plants', shell);
    })
    .addHelpText(
      'after',
      `
Examples:
  source <(npx plants completion bash)
  npx plants completion zsh > "\${fpath[1]}/_plants"
${EXITS}`,
    );
};

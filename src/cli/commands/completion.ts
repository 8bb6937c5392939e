import tab from '@bomb.sh/tab/commander';
import { type Command } from 'commander';
import { BASH_COMPLETION } from '../bash-completion.js';
import { EXITS } from '../exit-status.js';

/** Adds `plants completion`, which completes all commands that were added before. */
export const addCompletion = (program: Command, description: string): void => {
  const completions = tab(program, { completionCommandName: 'completion' });
  program.commands
    .find((command) => command.name() === 'completion')
    ?.description(description)
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

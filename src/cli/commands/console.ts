import { userInfo } from 'node:os';
import { type Command } from 'commander';
import { SCOPES } from '../../http/auth/principal.js';
import { CONSOLE_EXPIRES, CONSOLE_SCOPES, consoleLink } from '../console.js';
import { EXITS } from '../exit-status.js';
import { openBrowser } from '../open-browser.js';
import { settings } from '../settings.js';

/** Defines `plants console`. */
export const consoleCommand = (command: Command): void => {
  command
    .option(
      '--owner <name>',
      'whose plants are shown; without it, those of an owner with the name of this account',
    )
    .option(
      '--scope <scopes>',
      `what the token allows, separated by spaces: ${SCOPES.join(', ')}; without it ${CONSOLE_SCOPES}`,
    )
    .option('--expires <duration>', 'how long the token is good: 15m, 12h; at most 365d', CONSOLE_EXPIRES)
    .option('--url <url>', 'where the service is; without it at HOST and PORT')
    .option('--no-open', 'print the link, and open nothing')
    .option('--json', 'print {link, expiresAt, opened}')
    .addHelpText(
      'after',
      `\nWhoever has the link has what the token allows, until it expires.\n\nExample:\n  npx plants console --owner alice\n${EXITS}`,
    )
    .action(openConsole);
};

interface ConsoleOptions {
  readonly owner?: string;
  readonly scope?: string;
  readonly expires: string;
  readonly url?: string;
  readonly open: boolean;
  readonly json?: true;
}

const openConsole = async ({
  open,
  json,
  owner = userInfo().username,
  ...request
}: ConsoleOptions): Promise<void> => {
  const { link, page, expiresAt } = await consoleLink(settings(), { owner, ...request }, new Date());
  if (open && !json) process.stdout.write(`Opening ${page} for ${owner}.\n`);
  const opened = open && (await openBrowser(link));
  if (json) process.stdout.write(`${JSON.stringify({ link, expiresAt: expiresAt.toISOString(), opened })}\n`);
  else if (!open) process.stdout.write(`${link}\n`);
  else
    process.stdout.write(
      `${opened ? 'If nothing has opened' : 'No browser could be opened here'}, use this link, until ${expiresAt.toISOString()}:\n\n${link}\n`,
    );
};

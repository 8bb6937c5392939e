import { type Command } from 'commander';
import { SCOPES } from '../../http/auth/principal.js';
import { EXITS } from '../exit-status.js';
import { settings } from '../settings.js';
import { signToken } from '../token.js';

/** Defines `plants token`. */
export const tokenCommand = (command: Command): void => {
  command
    .requiredOption('--owner <name>', 'whose plants it is for')
    .option(
      '--scope <scopes>',
      `what it allows, separated by spaces: ${SCOPES.join(', ')}; without it, reading and writing plants`,
    )
    .option('--expires <duration>', 'how long it is good: 15m, 12h, 30d; at most 365d', '30d')
    .option('--client <id>', 'the client that it is for; appears as the actor in the history')
    .option('--json', 'print {token, expiresAt}')
    .addHelpText('after', `\nExample:\n  TOKEN=$(npx plants token --owner alice --expires 12h)\n${EXITS}`)
    .action(token);
};

interface TokenOptions {
  readonly owner: string;
  readonly scope?: string;
  readonly expires: string;
  readonly client?: string;
  readonly json?: true;
}

const token = async ({ owner, scope, expires, client, json }: TokenOptions): Promise<void> => {
  const signed = await signToken(settings(), { owner, scope, expires, clientId: client }, new Date());
  if (signed.keyCreated) process.stderr.write(`made the signing key ${signed.keyFile}\n`);
  process.stdout.write(
    `${json ? JSON.stringify({ token: signed.token, expiresAt: signed.expiresAt.toISOString() }) : signed.token}\n`,
  );
};

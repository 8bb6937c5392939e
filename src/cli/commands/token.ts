import { type Command } from 'commander';
import { SCOPES } from '../../http/auth/principal.js';
import { EXITS } from '../exit-status.js';
import { settings } from '../settings.js';
import { print } from '../terminal.js';
import { signToken } from '../token.js';

/** Defines `plants token`. */
export const define = (command: Command): void => {
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

const token = async ({ client: clientId, json, ...request }: TokenOptions): Promise<void> => {
  const { token, expiresAt, keyFile, keyCreated } = await signToken(
    settings(),
    { ...request, clientId },
    new Date(),
  );
  if (keyCreated) process.stderr.write(`made the signing key ${keyFile}\n`);
  print({ json }, { token, expiresAt }, token);
};

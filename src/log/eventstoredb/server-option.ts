import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { z } from 'zod';

const Options = z.array(z.object({ name: z.string(), value: z.string().nullish() }));

export interface OptionRequest {
  /** `http:` or `https:`, with host and port. */
  readonly origin: string;
  readonly tls: https.RequestOptions;
  readonly credentials: { readonly username: string; readonly password: string } | undefined;
  readonly timeoutMs: number;
}

/** The account may not see the options of the server, or it shows none. */
export class OptionsHidden extends Error {
  override readonly name = 'OptionsHidden';
}

/**
 * The value of an option of the server; undefined where it has none of this name. The client's own request ends the
 * process where the answer is no JSON, and sends no certificate. Throws OptionsHidden, and errors of the connection.
 */
export const readOption = async (
  name: string,
  { origin, tls, credentials, timeoutMs }: OptionRequest,
): Promise<string | undefined> => {
  const url = new URL('/info/options', origin);
  const auth = credentials && `${credentials.username}:${credentials.password}`;
  const settings = { auth, agent: false as const, signal: AbortSignal.timeout(timeoutMs), ...tls };
  const { get } = url.protocol === 'https:' ? https : http;
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    get(url, settings, resolve).on('error', reject);
  });
  const answer = await text(response);
  if (response.statusCode !== 200) throw new OptionsHidden(`the answer is ${String(response.statusCode)}`);
  let options: z.output<typeof Options>;
  try {
    options = Options.parse(JSON.parse(answer));
  } catch (error) {
    throw new OptionsHidden('the answer holds no options', { cause: error });
  }
  return options.find((option) => option.name === name)?.value ?? undefined;
};

/** The fields that the log shows of an error that nothing has handled. Others may hold anything. */
interface UnhandledError {
  readonly type: string;
  readonly message: string;
  readonly stack: string;
}

/** The most characters of a message or a stack: an error's text may quote what a client or a server has sent. */
const MAX_TEXT = 4_000;

/** Secrets in a text: the user and password of a URL, credentials of a header, a JSON Web Token. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\/\/[^\s/@]{1,1000}@/g, '//[redacted]@'],
  [/\b(basic|bearer) [\w+/=.~-]+/gi, '$1 [redacted]'],
  [/\beyJ[\w-]*\.[\w-]*\.[\w-]*/g, '[redacted]'],
];

const withoutSecrets = (text: string): string =>
  SECRETS.reduce((clean, [pattern, instead]) => clean.replace(pattern, instead), text.slice(0, MAX_TEXT));

const describe = (error: unknown): UnhandledError => {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  return { type: name, message: withoutSecrets(message), stack: withoutSecrets(stack ?? '') };
};

/**
 * Calls `handle` with the first error of this process that nothing handles: an uncaught exception, or an unhandled
 * rejection, which Node raises as one. The process goes on in an undefined state: `handle` must end it.
 * Further errors are dropped, as most follow from the first.
 */
export const onUnhandledError = (handle: (error: UnhandledError) => void): void => {
  let seen = false;
  process.on('uncaughtException', (error: unknown) => {
    if (seen) return;
    seen = true;
    handle(describe(error));
  });
};

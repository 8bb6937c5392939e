import { jsonErrors } from './exit-status.js';

let print = (message: string, exitStatus: number): void => {
  process.stderr.write(
    jsonErrors ? `${JSON.stringify({ error: message, exitStatus })}\n` : `plants: ${message}\n`,
  );
};

/** Prints why a command failed on standard error: one line, or one JSON object under --json. */
export const printError = (message: string, exitStatus: number): void => {
  print(message, exitStatus);
};

/** Replaces the printing of errors: a service that logs JSON logs the reason why it does not start. */
export const printErrorsWith = (other: (message: string) => void): void => {
  print = other;
};

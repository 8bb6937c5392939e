import { type LoggerService } from '@nestjs/common';
import { type DestinationStream, type Logger, pino } from 'pino';
import { type LogLevel } from './config.js';
import { LogOutput } from './log-output.js';

/** What must never be read in a log, wherever somebody may put it by mistake. */
const SECRETS = [
  'authorization',
  'token',
  'access_token',
  'password',
  'secret',
  'privateKey',
  'connectionString',
];

const STANDARD_OUTPUT = 1;

let writtenAt = NaN;
let written = '';

/** The time of a line, as a field. Many lines are of one millisecond, and writing it out takes longer than all else. */
const timeField = (): string => {
  const now = Date.now();
  if (now !== writtenAt) {
    writtenAt = now;
    written = `,"time":"${new Date(now).toISOString()}"`;
  }
  return written;
};

/** What is written where nobody read for so long that so many lines were dropped. */
const droppedLine = (lines: number): string =>
  `{"level":"warn"${timeField()},"dropped":${lines},"msg":"lines were dropped: the reader of this log was stuck"}\n`;

/** Lines of JSON, to standard output or what makes something else of them. */
export const createLogger = (
  level: LogLevel,
  destination: DestinationStream = new LogOutput(STANDARD_OUTPUT, droppedLine),
): Logger =>
  pino(
    {
      level,
      base: null,
      timestamp: timeField,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
        censor: '[redacted]',
      },
    },
    destination,
  );

/** What the line of a request that was answered shows. */
export interface RequestLine {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** From its header fields to the end of the answer, in milliseconds. */
  readonly ms: number;
  /** The IP address of the client. */
  readonly client: string;
  readonly correlationId: string;
  /** The code of the problem document that the answer was, if it was one. */
  readonly code: string | undefined;
  readonly owner: string | undefined;
}

/**
 * Writes the lines of requests, as Pino would write them, where the logger writes that level at all. Pino goes
 * through the fields of any object one by one, which took a twentieth of a list.
 */
export const requestLines = (logger: Logger, level: 'debug' | 'info'): ((line: RequestLine) => void) => {
  if (!logger.isLevelEnabled(level)) return () => undefined;
  // For an integration where speed is needed: https://getpino.io/#/docs/api?id=pino-symbols
  const output = (logger as unknown as Record<symbol, DestinationStream>)[pino.symbols.streamSym];
  return ({ requestId, method, path, status, ms, client, correlationId, code, owner }) => {
    const ofCode = code === undefined ? '' : `,"code":${quoted(code)}`;
    const ofOwner = owner === undefined ? '' : `,"owner":${quoted(owner)}`;
    output?.write(
      `{"level":"${level}"${timeField()},"requestId":${quoted(requestId)},"method":${quoted(method)},"path":${quoted(path)},"status":${status},"ms":${ms},"client":${quoted(client)},"correlationId":${quoted(correlationId)}${ofCode}${ofOwner},"msg":"request"}\n`,
    );
  };
};

/** Printable ASCII but the two that JSON escapes (RFC 8259, section 7): nearly all that is ever written. */
const PLAIN = /^[ !#-[\]-~]*$/;

const quoted = (value: string): string => (PLAIN.test(value) ? `"${value}"` : JSON.stringify(value));

/** Nest's own messages, in our log. Those about wiring are for its developers: debug. */
export const nestLogger = (logger: Logger): LoggerService => {
  const child = logger.child({ part: 'nest' });
  const at =
    (level: 'debug' | 'warn' | 'error' | 'fatal') =>
    (message: unknown, ...details: unknown[]): void => {
      child[level]({ details }, String(message));
    };
  return {
    log: at('debug'),
    debug: at('debug'),
    verbose: at('debug'),
    warn: at('warn'),
    error: at('error'),
    fatal: at('fatal'),
  };
};

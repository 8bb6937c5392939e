import { type LoggerService } from '@nestjs/common';
import { type DestinationStream, type Logger, pino } from 'pino';
import { type LogLevel } from '../config.js';
import { LineLimit } from './line-limit.js';
import { standardOutput } from './output.js';

/** Fields that are never logged with their values. */
const SECRETS = [
  'authorization',
  'token',
  'access_token',
  'password',
  'secret',
  'privateKey',
  'connectionString',
];

/** The time of a line, as a field. */
const { isoTime } = pino.stdTimeFunctions;

/** The line that reports dropped lines. */
const droppedLine = (lines: number): string =>
  `{"level":"warn"${isoTime()},"dropped":${lines},"msg":"lines were dropped: the reader of this log was stuck"}\n`;

/** The process that writes a log. In each line, since logs of many processes are read together. */
export interface LogSource {
  readonly pid: number;
  readonly host: string;
  readonly version: string;
  /** As in ROLES. Undefined before the settings are known. */
  readonly role?: string;
}

/** Lines of this level and above are not limited: no client can cause them at will. */
const UNLIMITED_LEVEL = pino.levels.values.error ?? Infinity;

const LEFT_OUT = 'further lines of one kind were left out';

/** A logger of JSON lines, to standard output or `destination`. Lines with the same message are limited. */
export const createLogger = (
  level: LogLevel,
  destination: DestinationStream = standardOutput(droppedLine),
  source: LogSource | null = null,
): Logger => {
  const limit = new LineLimit((message, leftOut) => {
    logger.warn({ message, leftOut }, LEFT_OUT);
  });
  const logger = pino(
    {
      level,
      base: source,
      timestamp: isoTime,
      hooks: {
        logMethod(parameters, write, severity) {
          const message: unknown = parameters.findLast((one) => typeof one === 'string');
          if (
            severity >= UNLIMITED_LEVEL ||
            typeof message !== 'string' ||
            message === LEFT_OUT ||
            limit.admits(message)
          )
            write.apply(this, parameters);
        },
      },
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
        censor: '[redacted]',
      },
    },
    destination,
  );
  return logger;
};

/** The fields of a request's line. */
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
  /** The code of the problem document, if the answer was one. */
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
  const internals = logger as unknown as Record<symbol, unknown>;
  const output = internals[pino.symbols.streamSym] as DestinationStream;
  const source = internals[pino.symbols.chindingsSym] as string;
  return ({ requestId, method, path, status, ms, client, correlationId, code, owner }) => {
    const ofCode = code === undefined ? '' : `,"code":${quoted(code)}`;
    const ofOwner = owner === undefined ? '' : `,"owner":${quoted(owner)}`;
    output.write(
      `{"level":"${level}"${isoTime()}${source},"requestId":${quoted(requestId)},"method":${quoted(method)},"path":${quoted(path)},"status":${status},"ms":${ms},"client":${quoted(client)},"correlationId":${quoted(correlationId)}${ofCode}${ofOwner},"msg":"request"}\n`,
    );
  };
};

/** Printable ASCII without the two characters that JSON escapes (RFC 8259, section 7). */
const PLAIN = /^[ !#-[\]-~]*$/;

const quoted = (value: string): string => (PLAIN.test(value) ? `"${value}"` : JSON.stringify(value));

/** Writes Nest's messages to our log; those about its start at level debug. */
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

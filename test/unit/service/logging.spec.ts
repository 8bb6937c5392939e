import { Writable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { type LogLevel } from '../../../src/service/config.js';
import {
  createLogger,
  nestLogger,
  type RequestLine,
  requestLines,
} from '../../../src/service/logging/logger.js';
import { readableLog } from '../../../src/service/logging/readable-lines.js';
import { until } from '../../support/waiting.js';

class Lines extends Writable {
  readonly lines: string[] = [];
  override _write(text: Buffer, _encoding: string, done: () => void): void {
    this.lines.push(
      ...text
        .toString()
        .split('\n')
        .filter((line) => line !== ''),
    );
    done();
  }
  get parsed(): Record<string, unknown>[] {
    return this.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  }
}

const json = (level: LogLevel = 'trace') => {
  const lines = new Lines();
  return { lines, logger: createLogger(level, lines) };
};

const SECRET = 's3cr3t-value';
const NAMES = [
  'authorization',
  'token',
  'access_token',
  'password',
  'secret',
  'privateKey',
  'connectionString',
];

const line: RequestLine = {
  requestId: 'r-1',
  method: 'GET',
  path: '/plants',
  status: 200,
  ms: 0.3,
  client: '192.0.2.1',
  correlationId: 'c-1',
  code: 'plant_exists',
  owner: 'anne',
};

describe('the log', () => {
  it('is one JSON object a line: level as a word, time in UTC, message, and what was given', () => {
    const { lines, logger } = json();
    logger.info({ requestId: 'r-1' }, 'listening');
    logger.warn('only words');
    expect(lines.parsed).toEqual([
      {
        level: 'info',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as unknown,
        requestId: 'r-1',
        msg: 'listening',
      },
      { level: 'warn', time: expect.any(String) as unknown, msg: 'only words' },
    ]);
  });

  it('says in each line which process wrote it, also in the line of a request', () => {
    const lines = new Lines();
    const source = { pid: 7, host: 'plants-1', version: '1.2.3', role: 'api,projector' };
    const logger = createLogger('info', lines, source);
    logger.info('listening');
    logger.child({ requestId: 'r-1' }).warn('odd');
    requestLines(logger, 'info')(line);
    const time = expect.any(String) as unknown;
    expect(lines.parsed).toEqual([
      { level: 'info', time, ...source, msg: 'listening' },
      { level: 'warn', time, ...source, requestId: 'r-1', msg: 'odd' },
      { level: 'info', time, ...source, ...line, msg: 'request' },
    ]);
  });

  it('does not say it to people, who see which terminal it is', async () => {
    const lines = new Lines();
    const source = { pid: 7, host: 'plants-1', version: '1.2.3', role: 'api' };
    createLogger('info', readableLog(lines), source).info('listening');
    await until(() => lines.lines.length > 0);
    expect(lines.lines.join()).not.toMatch(/pid|host|role|version/);
  });

  it('has a hundred lines of one message in a minute at most, and every error', () => {
    const { lines, logger } = json();
    for (let count = 0; count < 250; count += 1) {
      logger.warn({ count }, 'nothing was written');
      logger.error({ count }, 'it failed');
    }
    logger.warn('another');
    const levels = lines.parsed.map(({ level, msg }) => `${String(level)} ${String(msg)}`);
    expect(levels.filter((one) => one === 'warn nothing was written')).toHaveLength(100);
    expect(levels.filter((one) => one === 'error it failed')).toHaveLength(250);
    expect(levels.at(-1)).toBe('warn another');
  });

  it.each(['fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const)(
    'says at level %s what is as grave, and no more',
    (level) => {
      const { lines, logger } = json(level);
      const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const;
      for (const each of levels) logger[each]('x');
      expect(lines.parsed.map((line) => line.level)).toEqual(levels.slice(0, levels.indexOf(level) + 1));
    },
  );

  it('is silent when told so', () => {
    const { lines, logger } = json('silent');
    logger.fatal('x');
    expect(lines.lines).toEqual([]);
  });

  describe.each(NAMES)('keeps %s to itself', (name) => {
    it.each(['fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const)('at level %s', (level) => {
      const { lines, logger } = json();
      logger[level]({ [name]: SECRET }, 'x');
      expect(lines.parsed).toMatchObject([{ level, [name]: '[redacted]' }]);
    });

    it.each<[string, object]>([
      ['an object', { request: { [name]: SECRET } }],
      ['an object in an object', { request: { headers: { [name]: SECRET } } }],
      ['a list', { requests: [{ [name]: SECRET }] }],
      ['an error', { err: Object.assign(new Error('x'), { [name]: SECRET }) }],
      ['what belongs to an error', { err: Object.assign(new Error('x'), { request: { [name]: SECRET } }) }],
    ])('within %s', (_where, given) => {
      const { lines, logger } = json();
      logger.error({ ...given, kept: 'visible' }, 'x');
      expect(lines.lines.join()).not.toContain(SECRET);
      expect(lines.parsed).toMatchObject([{ kept: 'visible' }]);
    });

    it('in a child of the log', () => {
      const { lines, logger } = json();
      logger.child({ [name]: SECRET }).info('x');
      expect(lines.parsed).toMatchObject([{ [name]: '[redacted]' }]);
    });

    it('for people too', async () => {
      const lines = new Lines();
      createLogger('info', readableLog(lines)).info({ [name]: SECRET }, 'x');
      await until(() => lines.lines.length === 2);
      expect(lines.lines[1]).toContain('[redacted]');
      expect(lines.lines.join()).not.toContain(SECRET);
    });
  });

  it('is readable for people: time, level and message in one line, then what was given', async () => {
    const lines = new Lines();
    createLogger('info', readableLog(lines)).warn({ port: 3000 }, 'something odd');
    await until(() => lines.lines.length === 2);
    // Without the colours that a terminal has.
    const plain = lines.lines.map((line) => line.replace(/\u001B\[\d+m/g, ''));
    expect(plain[0]).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] WARN: something odd$/);
    expect(plain[1]).toBe('    port: 3000');
  });
});

describe("a request's line", () => {
  it('is what Pino writes of the same fields, whatever they hold', () => {
    const text = fc.oneof(fc.string(), fc.string({ unit: anyCharacter }), fc.constant('"\\\u2028\u007F'));
    const fields: fc.Arbitrary<RequestLine> = fc.record({
      requestId: text,
      method: text,
      path: text,
      status: fc.integer({ min: 100, max: 599 }),
      ms: fc.double({ min: 0, max: 1e9, noNaN: true }),
      client: text,
      correlationId: text,
      code: fc.option(text, { nil: undefined }),
      owner: fc.option(text, { nil: undefined }),
    });
    fc.assert(
      fc.property(fields, (given) => {
        const { lines, logger } = json();
        requestLines(logger, 'info')(given);
        logger.child({}, { redact: [] }).info(given, 'request');
        const [ours, pinos] = lines.parsed.map((each) => ({ ...each, time: undefined }));
        expect(ours).toEqual(pinos);
        expect(lines.lines).toHaveLength(2);
      }),
    );
  });

  it('is written where its level is', () => {
    const { lines, logger } = json('info');
    requestLines(logger, 'debug')(line);
    requestLines(logger, 'info')(line);
    expect(lines.parsed).toEqual([
      { level: 'info', time: expect.any(String) as unknown, ...line, msg: 'request' },
    ]);
  });

  it('is readable for people, too', async () => {
    const lines = new Lines();
    requestLines(createLogger('info', readableLog(lines)), 'info')(line);
    await until(() => lines.lines.length > 1);
    expect(lines.lines.join()).toContain('request');
    expect(lines.lines.join()).toContain('c-1');
  });
});

describe("Nest's messages", () => {
  it.each([
    ['log', 'debug'],
    ['verbose', 'debug'],
    ['debug', 'debug'],
    ['warn', 'warn'],
    ['error', 'error'],
    ['fatal', 'fatal'],
  ] as const)('of %s are ours of %s', (theirs, ours) => {
    const { lines, logger } = json();
    nestLogger(logger)[theirs]?.('Mapped {/plants, GET} route', 'RouterExplorer');
    expect(lines.parsed).toMatchObject([
      { level: ours, part: 'nest', msg: 'Mapped {/plants, GET} route', details: ['RouterExplorer'] },
    ]);
  });

  it('about wiring are not heard at the usual level', () => {
    const { lines, logger } = json('info');
    nestLogger(logger).log('Starting Nest application...', 'NestFactory');
    expect(lines.lines).toEqual([]);
  });

  it('hold no secret in their details', () => {
    const { lines, logger } = json();
    nestLogger(logger).error('x', { authorization: SECRET });
    expect(lines.lines.join()).not.toContain(SECRET);
    expect(lines.lines).toHaveLength(1);
  });
});

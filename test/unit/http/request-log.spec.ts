import { expect, it } from '@jest/globals';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { requestLog } from '../../../src/http/request-log.js';
import { createLogger } from '../../../src/service/logging/logger.js';

/** The log's lines for `requests` answers of one kind. */
const linesOf = (requests: number, status: number, owner?: string): Record<string, unknown>[] => {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger('info', {
    write: (text) => lines.push(JSON.parse(text) as Record<string, unknown>),
  });
  const onAnswered = requestLog(
    logger,
    () => '127.0.0.1',
    () => undefined,
  );
  const problem = status < 400 ? undefined : 'keys_unavailable';
  const raw = new IncomingMessage(new Socket());
  for (let id = 0; id < requests; id += 1)
    onAnswered(
      { method: 'GET', route: '/plants', status, seconds: 0.001, problem },
      { id: String(id), headers: {}, url: '/plants', raw },
      owner,
    );
  return lines;
};

it('refused requests without an owner are a hundred lines a minute for each code, whosever fault it is', () => {
  expect(linesOf(1_000, 401)).toHaveLength(100);
  expect(linesOf(1_000, 503)).toHaveLength(100);
});

it('what is not refused, and what an owner is refused, has a line each', () => {
  expect(linesOf(1_000, 200)).toHaveLength(1_000);
  expect(linesOf(1_000, 503, 'ada')).toHaveLength(1_000);
});

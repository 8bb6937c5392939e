import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { START, type EventLog } from '../../src/log/event-log.js';
import { all, freshStream, newEvent } from './log-events.js';

/** Of a process that used a log by itself. */
export interface ChildReport {
  readonly identity?: string;
  /** Streams whose append was acknowledged, in order. */
  readonly acknowledged: string[];
  /** The first error, if there was one, and what an append came to afterwards. */
  readonly error?: string;
  readonly afterwards?: string;
}

const describeError = (error: unknown): string => `${(error as Error).name}: ${(error as Error).message}`;

/**
 * Opens the log in a file, reads it, appends so many events of two kilobytes, follows the log for a moment,
 * closes. It must then end by itself: anything left open would keep it alive.
 */
const run = async (file: string, count: number): Promise<ChildReport> => {
  const acknowledged: string[] = [];
  let log: EventLog;
  try {
    log = await openSqliteEventLog(file);
  } catch (error) {
    return { acknowledged, error: describeError(error) };
  }
  const identity = log.identity();
  const append = async (): Promise<void> => {
    const stream = freshStream();
    await log.append(stream, 'none', [newEvent('x'.repeat(2000))]);
    acknowledged.push(stream);
  };
  try {
    await all(log.readAll(START));
    for (let i = 0; i < count; i += 1) await append();
    for await (const batch of log.subscribe(await log.head(), new AbortController().signal))
      if (batch.caughtUp) break;
    return { identity, acknowledged };
  } catch (error) {
    const afterwards = await append().then(() => 'acknowledged', describeError);
    return { identity, acknowledged, error: describeError(error), afterwards };
  } finally {
    await log.close();
  }
};

const [, , file = '', count = ''] = process.argv;
process.stdout.write(JSON.stringify(await run(file, Number(count))));

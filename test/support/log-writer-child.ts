import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { LogUnavailable, type AppendHealth } from '../../src/log/event-log.js';
import { freshStream, newEvent } from './log-events.js';

/** One JSON object in a line, from a process that appends to a log until it is killed. */
export interface WriterLine {
  /** The stream of an event that was acknowledged. */
  readonly acknowledged?: string;
  /** The name of the error that an append ended with. */
  readonly refused?: string;
  readonly health?: AppendHealth;
}

const CLIENTS = 4;

const tell = (line: WriterLine): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};

const log = await openSqliteEventLog(process.argv[2] ?? '', {
  onHealth: (health) => {
    tell({ health });
  },
});
const append = async (): Promise<void> => {
  for (;;) {
    const stream = freshStream();
    try {
      await log.append(stream, 'none', [newEvent('x'.repeat(200))]);
      tell({ acknowledged: stream });
    } catch (error) {
      tell({ refused: (error as Error).name });
      if (error instanceof LogUnavailable) await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
};
await Promise.all(Array.from({ length: CLIENTS }, append));

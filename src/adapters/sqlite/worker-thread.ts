import { parentPort } from 'node:worker_threads';
import { type Database } from './database.js';
import { type FileFault } from './file-names.js';
import { watchOf } from './file-rescue.js';
import { LOOK_EVERY_MS } from './file-watch.js';
import { inTransaction } from './open-file.js';
import { failureOf, type Order, type Reply } from './worker-call.js';

/** What a thread writes, by its calls. */
export interface WrittenFile<Work> {
  readonly file: string;
  /** Opens the file, and makes it where it is missing or empty. */
  readonly open: () => Database;
  /** To be called once the file is open. Gives what does the work of one call, in a transaction that is open. */
  readonly prepare: (db: Database) => (work: Work) => unknown;
  /** SQL before the transaction of a call. */
  readonly before?: (work: Work) => string;
  /** The port's error for a file that was taken away. */
  readonly takenAway: (fault: FileFault) => Error;
  /** Whether nothing can be written any more after that, even if the file comes back. */
  readonly isFinal: (fault: FileFault) => boolean;
  /** The port's error for a call whose caller has given up before it was begun; without it such a call is done. */
  readonly tooLate?: () => Error;
}

/** Answers the calls of WorkerCalls, in their order, until it is closed. `afterwards` is called after each answer. */
export const answerOrders = <Work>(
  perform: (order: Order<Work>) => unknown,
  afterwards: (order: Order<Work>) => void = () => undefined,
): void => {
  parentPort?.on('message', (order: Order<Work>) => {
    const { call } = order;
    let reply: Reply<never>;
    try {
      reply = { call, answer: perform(order) };
    } catch (error) {
      reply = { call, failure: failureOf(error) };
    }
    parentPort?.postMessage(reply);
    if (order.work === 'close')
      parentPort?.close(); // nothing left to wait for: the thread ends
    else afterwards(order);
  });
};

/** Posts a notice, which answers no call. */
export const postNotice = (notice: unknown): void => {
  parentPort?.postMessage({ notice } satisfies Reply<unknown>);
};

/** Answers calls that write a file, each in a transaction, and watches its names. */
export const answerCalls = <Work>(written: WrittenFile<Work>): void => {
  let connection: ReturnType<typeof connect<Work>> | undefined;
  answerOrders<Work>(({ work, deadline }) => {
    if (work === 'close') {
      connection?.close();
      return undefined;
    }
    if (written.tooLate && deadline !== undefined && process.hrtime.bigint() > deadline)
      throw written.tooLate();
    if (work === 'open') {
      connection = connect(written);
      return connection.identity;
    }
    if (!connection) throw new Error('not open');
    return connection.write(work);
  });
};

/** Opens the file, and watches over its names until it is closed. */
const connect = <Work>({ file, open, prepare, before, takenAway, isFinal }: WrittenFile<Work>) => {
  const db = open();
  // After a crash the index says that a checkpoint is unfinished, during which nobody can tell who writes the file.
  db.exec('PRAGMA wal_checkpoint(PASSIVE)');
  const watch = watchOf(db, file);
  const perform = prepare(db);
  let final: FileFault | undefined;

  /** Throws `takenAway` where a file was, and an error of the file system where none can be looked at. */
  const assertInPlace = (): void => {
    const fault = final ?? watch.look();
    if (!fault) return;
    if (!final && isFinal(fault)) {
      final = fault;
      postNotice(fault);
    }
    throw takenAway(fault);
  };

  const watching = setInterval(() => {
    try {
      assertInPlace();
    } catch {
      // The next call throws it, too.
    }
  }, LOOK_EVERY_MS);

  return {
    identity: watch.identity,
    write: (work: Work): unknown => {
      assertInPlace();
      if (before) db.exec(before(work));
      const answer = inTransaction(db, 'BEGIN IMMEDIATE', () => perform(work));
      assertInPlace();
      return answer;
    },
    close: () => {
      clearInterval(watching);
      try {
        // All into the one file, as far as nobody else reads: the drop-in's `close` leaves that undone where a
        // statement is not yet collected.
        if (!final) db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
      } finally {
        db.close();
        watch.close();
      }
    },
  };
};

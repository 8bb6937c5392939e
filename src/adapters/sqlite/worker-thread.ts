import { parentPort } from 'node:worker_threads';
import { type Database } from './database.js';
import { type FileFault } from './file-names.js';
import { watchOf } from './file-rescue.js';
import { LOOK_EVERY_MS } from './file-watch.js';
import { inTransaction } from './open-file.js';
import { failureOf, type Order, type Reply } from './worker-call.js';

/** A file that a thread writes. */
export interface WrittenFile<Work> {
  readonly file: string;
  /** Opens the file, and creates what is missing. */
  readonly open: () => Database;
  /** Called once the file is open. Returns a function that does the work of one call, inside a transaction. */
  readonly prepare: (db: Database) => (work: Work) => unknown;
  /** SQL that runs before the transaction of a call. */
  readonly before?: (work: Work) => string;
  /** The port's error for a file that was taken away. */
  readonly takenAway: (fault: FileFault) => Error;
  /** Whether nothing can be written after that fault, even if the file comes back. */
  readonly isFinal: (fault: FileFault) => boolean;
  /** The port's error for a call that begins after its deadline; without it such a call is done. */
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

/** Opens the file, and watches its names until it is closed. */
const connect = <Work>({ file, open, prepare, before, takenAway, isFinal }: WrittenFile<Work>) => {
  const db = open();
  // After a crash the index has an unfinished checkpoint, during which foreign writes cannot be recognised.
  db.exec('PRAGMA wal_checkpoint(PASSIVE)');
  const watch = watchOf(db, file);
  const perform = prepare(db);
  let final: FileFault | undefined;

  /** Throws `takenAway`, or an error of the file system where the files cannot be examined. */
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
        // Moves all pages, as far as no other process reads: the drop-in's `close` does not while a statement is not
        // yet garbage collected.
        if (!final) db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
      } finally {
        db.close();
        watch.close();
      }
    },
  };
};

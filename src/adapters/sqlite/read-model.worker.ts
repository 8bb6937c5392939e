import { dirname } from 'node:path';
import { workerData } from 'node:worker_threads';
import { coordinationWrites } from './coordination-writes.js';
import { syncFile, syncFolder } from '../../files/new-file.js';
import { BUSY_TIMEOUT_MS, type Database, pragma } from './database.js';
import { generationSweep, generationWrites } from './generation-writes.js';
import { applyingWith, listWrites } from './list-writes.js';
import { assertScrubbed, SCRUB } from './open-file.js';
import { openReadModelFile } from './read-model-schema.js';
import { takenAway, unavailable, type Work, type WriterData } from './read-model-work.js';
import { answerCalls } from './worker-thread.js';

const { file, log } = workerData as WriterData;

/** How long a checkpoint waits for lists that are being read, in milliseconds; no apply is made meanwhile. */
const CHECKPOINT_WAIT_MS = 50;

const CHECKPOINT = `PRAGMA busy_timeout = ${CHECKPOINT_WAIT_MS}; PRAGMA wal_checkpoint(RESTART); PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`;

/** SQL before the transaction of some kinds of work. */
const BEFORE: Partial<Record<Work['kind'], string>> = { checkpoint: CHECKPOINT, scrub: SCRUB };

const prepareWrites = (db: Database) => {
  const generations = generationWrites(db, log);
  const sweep = generationSweep(db, log);
  const lists = listWrites(db, file);
  const apply = applyingWith(generations, lists);
  const coordination = coordinationWrites(db, log);
  /** The first write after a checkpoint waits for the disk: this one changes nothing. */
  const restartLog = (): void => {
    db.exec(`PRAGMA user_version = ${Number(pragma(db, 'user_version'))}`);
  };
  return (work: Work): unknown => {
    switch (work.kind) {
      case 'create':
        return generations.create();
      case 'promote':
        generations.promote(work.generation, work.replaces, work.logEnd);
        return undefined;
      case 'drop':
        generations.drop(work.generation);
        return undefined;
      case 'sweep':
        return sweep();
      case 'apply':
        return apply(work.generation, work.partitions);
      case 'sync':
        // Commits are not synced one by one (synchronous = NORMAL); what was moved out of this file before was.
        syncFile(`${file}-wal`);
        syncFolder(dirname(file)); // SQLite does that with its own first sync of the file, which may not have come yet
        return undefined;
      case 'scrub':
        assertScrubbed(file, unavailable);
        return undefined;
      case 'checkpoint':
        restartLog();
        return undefined;
      case 'heal':
        generations.existing(work.generation);
        return lists.heal(work.generation, work.healing);
      case 'takeLease':
        return coordination.takeLease(work.holder, work.forMs);
      case 'returnLease':
        coordination.returnLease(work.holder);
        return undefined;
      case 'report':
        coordination.report(work.process, work.text, work.forMs);
        return undefined;
    }
  };
};

answerCalls<Work>({
  file,
  open: () => openReadModelFile(file),
  prepare: prepareWrites,
  before: ({ kind }) => BEFORE[kind] ?? '',
  takenAway,
  isFinal: () => true,
  tooLate: () => unavailable(`${file}: the queue was too long`),
});

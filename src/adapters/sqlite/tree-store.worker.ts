import { workerData } from 'node:worker_threads';
import { TreeUnavailable } from '../../ports/tree-store.js';
import { type Database } from './database.js';
import { assertScrubbed, SCRUB } from './open-file.js';
import { openTreeFile } from './tree-schema.js';
import { isCut, takenAway, type TreeAnswers, type TreeWork, type TreeWriterData } from './tree-work.js';
import { stateWrites } from './state-writes.js';
import { checkpointWrites, leafWrites } from './tree-writes.js';
import { answerCalls } from './worker-thread.js';

const { file, log } = workerData as TreeWriterData;

const prepareWrites = (db: Database) => {
  const append = leafWrites(db, file);
  const growState = stateWrites(db);
  const checkpoints = checkpointWrites(db);
  return (work: TreeWork): TreeAnswers[TreeWork['kind']] => {
    switch (work.kind) {
      case 'append':
        append(work.growth);
        return undefined;
      case 'state':
        return growState(work.growth);
      case 'save':
        checkpoints.save(work.checkpoint);
        return undefined;
      case 'raise':
        checkpoints.raise(work.alarm);
        return undefined;
      case 'lift':
        return checkpoints.lift(work.by, work.reason);
      case 'scrub':
        assertScrubbed(file, (message) => new TreeUnavailable(message));
        checkpoints.scrubbed(work.erasures);
        return undefined;
    }
  };
};

answerCalls<TreeWork>({
  file,
  open: () => openTreeFile(file, log),
  prepare: prepareWrites,
  // Leaves that a loss of power undoes are appended again; a checkpoint or an alarm must never be undone.
  before: ({ kind }) =>
    kind === 'scrub'
      ? SCRUB
      : `PRAGMA synchronous = ${kind === 'append' || kind === 'state' ? 'NORMAL' : 'FULL'}`,
  takenAway: (fault) => takenAway(file, fault),
  isFinal: isCut,
});

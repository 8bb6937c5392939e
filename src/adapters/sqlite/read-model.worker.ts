import { workerData } from 'node:worker_threads';
import { coordinationWrites } from './coordination-writes.js';
import { type Database } from './database.js';
import { generationSweep, generationWrites } from './generation-writes.js';
import { listWrites } from './list-writes.js';
import { openReadModelFile } from './read-model-schema.js';
import { takenAway, unavailable, type Work, type WriterData } from './read-model-work.js';
import { answerCalls } from './worker-thread.js';

const { file, log } = workerData as WriterData;

const prepareWrites = (db: Database) => {
  const generations = generationWrites(db, log);
  const sweep = generationSweep(db, log);
  const lists = listWrites(db, file);
  const coordination = coordinationWrites(db, log);
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
        generations.existing(work.generation);
        return lists.apply(work.generation, work.partitions);
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
  takenAway,
  isFinal: () => true,
  tooLate: () => unavailable(`${file}: the queue was too long`),
});

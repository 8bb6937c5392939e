/** Runs the auditor until it is stopped. An error that it cannot handle ends the thread, which is started again. */
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { openEventLog, openTreeStore } from './stores.js';
import { startTimer, type Timer } from '../runtime/runtime.js';
import { Auditor } from '../audit/auditor.js';
import { CosignedNotes } from '../audit/cosigned-notes.js';
import { ShownCheckpoints } from '../audit/shown-checkpoints.js';
import { Witnessing } from '../audit/witnessing.js';
import { decorate } from '../log/decorate.js';
import {
  type Appended,
  type EventLog,
  LogUnavailable,
  OutcomeUnknown,
  WrongExpectedRevision,
} from '../log/event-log.js';
import { type TreeStore } from '../audit/tree-store.js';
import { Load } from '../projection/load.js';
import { Pacing } from '../projection/pacing.js';
import { askWitness } from '../witness/ask.js';
import { type AuditorData, type FromAuditor, type ToAuditor, type TreeWork } from './auditor-thread.js';
import { loadConfig } from './config.js';
import { now } from './now.js';
import { type Answer, answerTo, ThreadCalls } from './thread-calls.js';
import { type WitnessesConfig } from './witnesses-config.js';

/** Milliseconds that a log may seem shorter than its tree before that is an alarm: a server may lag behind. */
const SHORT_LOG_MS = 10_000;

/**
 * Milliseconds from an auditor's first checkpoint to its first record in a log without any, and from each record to the
 * next: a thousandth of the events of a busy log, and 9,000 a year at most.
 */
const RECORD_AFTER_MS = 60_000;
const RECORD_EVERY_MS = 3_600_000;

/** Limit for a record in the log: longer than the log gives an append. */
const APPEND_MS = 60_000;

/** Pauses before a witness that fails is asked again. */
const WITNESS_PAUSES = { firstMs: 1_000, longestMs: 60_000 };

/**
 * Limit for witnesses before the first signature. Those that work answer in a tenth of it; where one is gone, clients
 * wait so long for their first receipt after a start.
 */
const WITNESSES_FIRST_MS = 3_000;

/** Interval of progress messages. */
const PROGRESS_MS = 100;

const data = workerData as AuditorData;
const config = loadConfig(process.env);
const stopping = new AbortController();
const { signal } = stopping;
const appends = new ThreadCalls();

const post = (message: FromAuditor): void => {
  parentPort?.postMessage(message);
};

const UNKNOWN: Answer = { name: 'OutcomeUnknown', message: 'the process that appends does not answer' };

/** The log, to which the owner of its connections appends. */
const openLog = async (): Promise<EventLog> =>
  decorate(await openEventLog(config.eventLog, { access: 'read', shared: data.shared }), {
    append: async (stream, expected, events) => {
      const answer = await appends.ask(
        (call) => {
          post({ kind: 'append', call, stream, expected, events });
        },
        { late: UNKNOWN, deadlineMs: APPEND_MS },
      );
      if ('value' in answer) return answer.value as Appended;
      const { name, message } = answer;
      if (name === 'WrongExpectedRevision') throw new WrongExpectedRevision(stream, expected);
      throw name === 'LogUnavailable' ? new LogUnavailable(message) : new OutcomeUnknown(message);
    },
  });

let telling: Timer | undefined;

/** Tells the status soon. */
const onProgress = (): void => {
  telling ??= startTimer(() => {
    telling = undefined;
    void running.then(({ auditor }) => {
      post({ kind: 'status', status: auditor.status, isNew: false });
    });
  }, PROGRESS_MS);
};

const witnessingOf = (log: EventLog, store: TreeStore, { targets, required }: WitnessesConfig) => {
  const { key } = data;
  const notes = new CosignedNotes(
    store,
    targets.map((target) => target.key),
    required,
    [key],
  );
  const witnessedBefore = new ShownCheckpoints(log, store, key, targets, {
    ask: askWitness,
    timeoutMs: WITNESSES_FIRST_MS,
    patienceMs: SHORT_LOG_MS,
  });
  const witnessing = new Witnessing(store, targets, notes, witnessedBefore, {
    ...{ now, onProgress, ask: askWitness, pauses: WITNESS_PAUSES },
    onState: (status) => {
      post({ kind: 'witness', status });
    },
  });
  return { witnessing, witnessedBefore };
};

const auditorOf = (
  log: EventLog,
  store: TreeStore,
  witnesses: ReturnType<typeof witnessingOf> | undefined,
): Auditor => {
  const { key, previousKey, notice } = data;
  const recheckMs = config.auditRecheckSeconds * 1_000;
  const pacing = new Pacing(new Load());
  const auditor = new Auditor(log, store, key, {
    ...{ now, notice, recheckMs, onProgress, patienceMs: SHORT_LOG_MS },
    yieldToLoop: (ending) => {
      onProgress();
      return pacing.yieldToLoop(ending);
    },
    recording: { afterMs: RECORD_AFTER_MS, everyMs: RECORD_EVERY_MS, previousKey },
    ...witnesses,
    onWarning: (message) => {
      post({ kind: 'warning', message });
    },
    onState: () => {
      post({ kind: 'status', status: auditor.status, isNew: true });
    },
  });
  return auditor;
};

const start = async () => {
  const log = await openLog();
  const store = await openTreeStore(join(config.dataDir, 'tree.db'), log.identity());
  const { auditWitnesses } = config;
  const witnesses = auditWitnesses && witnessingOf(log, store, auditWitnesses);
  const auditor = auditorOf(log, store, witnesses);
  const ended = Promise.all([auditor.run(signal), witnesses?.witnessing.run(signal)]);
  return { log, store, auditor, ended };
};

const running = start();

const write = async (store: TreeStore, work: TreeWork): Promise<unknown> => {
  if (work.kind === 'raise') return store.raise(work.alarm);
  return work.kind === 'lift' ? store.lift(work.by, work.reason) : store.scrub(work.erasures);
};

const obey = async (message: ToAuditor): Promise<void> => {
  switch (message.kind) {
    case 'stop':
      stopping.abort();
      appends.endAll(UNKNOWN);
      return;
    case 'appended':
      appends.answered(message.call, message.answer);
      return;
    case 'recheck':
      (await running).auditor.recheckSoon();
      return;
    case 'write': {
      const { store, auditor } = await running;
      const answer = await answerTo(() => write(store, message.work));
      auditor.lookSoon();
      post({ kind: 'written', call: message.call, answer });
    }
  }
};

parentPort?.on('message', (message: ToAuditor) => {
  obey(message).catch(() => undefined); // where it has not started the thread ends
});

const { log, store, ended } = await running;
await ended;
await store.close();
await log.close();
parentPort?.close(); // nothing left to wait for: the thread ends

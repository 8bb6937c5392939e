import { randomUUID } from 'node:crypto';
import { channel } from 'node:diagnostics_channel';
import { type Logger } from 'pino';
import { type Bell } from '../runtime/bell.js';
import { lastRun, recordRun } from '../operations/last-runs.js';
import { type EventLog } from '../log/event-log.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { type Load } from '../projection/load.js';
import { Projector } from '../projection/projector.js';
import { Verifier } from '../projection/verifier.js';
import { type Shutdown } from '../http/shutdown.js';
import { requestRebuild } from '../commands/record-rebuilds.js';
import { PROJECTOR } from '../commands/rebuilds.js';
import { type Config } from './config.js';
import { now } from './now.js';
import { type Resources } from './resources.js';
import { logProjector, logRefusal } from './state-lines.js';

/** Publishes each step of a rebuild inside this process: https://nodejs.org/api/diagnostics_channel.html */
const rebuildSteps = channel('plants.rebuild.step');

const rebuildAfterVerification = async (log: EventLog): Promise<void> => {
  const id = randomUUID();
  const operator = { actor: { sub: PROJECTOR }, correlationId: `verify ${id}` };
  await requestRebuild(log, { rebuild: id, rate: null, unskip: false }, operator, now);
};

/** Compares the lists with the log on a schedule; undefined where the settings want none. */
const verifierOf = (
  log: EventLog,
  model: ReadModelStore,
  { dataDir, verifyEverySeconds, verifyRebuild }: Config,
  load: Load,
  logger: Logger,
  onCompared: (differing: number) => Promise<void>,
): Verifier | undefined => {
  if (verifyEverySeconds === 0) return undefined;
  return new Verifier(log, model, {
    now,
    load,
    everyMs: verifyEverySeconds * 1_000,
    last: () => lastRun(dataDir, 'verify'),
    onCompared,
    onDifference: async ({ differing }) => {
      const next = verifyRebuild
        ? 'a rebuild is begun'
        : 'plants verify names them, plants rebuild mends them';
      logger.error(
        { differing },
        `the lists are not the fold of the log, differences: ${differing}; ${next}`,
      );
      if (!verifyRebuild) return;
      await rebuildAfterVerification(log);
    },
    onProblem: (reason) => {
      logger.warn({ reason }, 'the lists cannot be compared with the log; tried again each minute');
    },
  });
};

/** Starts the projector, if this process has that role. */
export const startProjector = (
  log: EventLog,
  model: ReadModelStore,
  config: Config,
  load: Load,
  logger: Logger,
  resources: Resources,
  shutdown: Shutdown,
  /** Rings at each new state. */
  news: Bell,
): Projector | undefined => {
  if (!config.roles.has('projector')) return undefined;
  const onCompared = async (differing: number): Promise<void> => {
    try {
      await recordRun(config.dataDir, 'verify', { at: now().toISOString(), differing });
    } catch (error) {
      logger.warn(
        { err: error },
        'DATA_DIR cannot be written, so status and metrics do not show this verification',
      );
    }
  };
  const projector = new Projector(
    log,
    model,
    now,
    randomUUID(),
    (status) => {
      logProjector(logger, status);
      news.ring();
    },
    {
      onDone: (message) => {
        logger.info(message);
      },
      onCompared,
      onProblem: (reason) => {
        const what = projector.rebuild
          ? 'the rebuild is failing'
          : 'generations of the lists cannot be looked after';
        logger.warn({ reason }, `${what}, retrying`);
      },
      onRefusal: (notice) => {
        logRefusal(logger, notice);
      },
      onForeign: (reason) => {
        logger.error(
          { reason },
          'the lists are of another log: they are refused, and made again from this one',
        );
      },
      onStep: (step) => {
        rebuildSteps.publish(step);
      },
      load,
    },
    verifierOf(log, model, config, load, logger, onCompared),
  );
  const stop = resources.run((signal) => projector.run(signal));
  // Without the role api no write waits for its list here, so the lease is given back before connections end.
  if (!config.roles.has('api'))
    shutdown.onBegin(() => {
      void stop();
    });
  return projector;
};

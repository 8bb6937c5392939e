import { type Logger } from 'pino';
import { type AuditorStatus } from '../audit/auditor-status.js';
import { type WitnessStatus } from '../audit/witnessing.js';
import { type RefusalKind } from '../domain/errors.js';
import { type AppendHealth } from '../log/event-log.js';
import { type ProjectorStatus } from '../projection/projector.js';
import { type RefusalNotice } from '../projection/refusals.js';

/** Logs a change of whether events can be appended. */
export const logHealth = (logger: Logger, health: AppendHealth): void => {
  const [level, message] = (
    {
      ok: ['info', 'the event log can be written again'],
      failing: ['error', `the event log cannot be written: ${health.reason ?? ''}`],
      stopped: ['fatal', `the event log is not written any more: ${health.reason ?? ''}`],
    } as const
  )[health.state];
  logger[level]({ eventLog: health }, message);
};

/** Logs a change of the auditor's state. */
export const logAuditor = (logger: Logger, status: AuditorStatus): void => {
  const level = {
    starting: 'debug',
    catching_up: 'info',
    live: 'info',
    disconnected: 'warn',
    blocked: 'error',
    alarm: 'fatal',
  } as const;
  const alarm = status.alarm ? `: ${status.alarm.message}` : '';
  logger[level[status.state]]({ auditor: status }, `auditor is ${status.state.replace('_', ' ')}${alarm}`);
};

/** Logs a change of a witness's state. */
export const logWitness = (logger: Logger, { witness, state, reason }: WitnessStatus): void => {
  const level = state === 'disagrees' ? 'error' : state === 'cosigns' ? 'info' : 'warn';
  logger[level]({ witness, reason }, `the witness ${witness}: ${state}`);
};

/** Logs a change of the projector's state. */
export const logProjector = (logger: Logger, status: ProjectorStatus): void => {
  const level = {
    starting: 'debug',
    standby: 'info',
    catching_up: 'info',
    live: 'info',
    disconnected: 'warn',
  } as const;
  logger[level[status.state]]({ projector: status }, `projector is ${status.state.replace('_', ' ')}`);
};

/** Logs an event that cannot be read: where it is, and what to do about it. */
export const logRefusal = (logger: Logger, notice: RefusalNotice): void => {
  switch (notice.kind) {
    case 'blocked': {
      const { position, stream, revision, kind, reason } = notice.blocked;
      const event = { generation: notice.generation, position, stream, revision, kind, reason };
      logger.error(event, `an owner's lists are not answered: an event cannot be read (${remedyOf(kind)})`);
      return;
    }
    case 'caughtUp': {
      const { position, stream, revision } = notice.blocked;
      const event = { generation: notice.generation, position, stream, revision };
      if (notice.next === undefined) logger.info(event, "an owner's lists are answered again");
      else
        logger.error(
          { ...event, next: { ...notice.next, owner: undefined } },
          `an owner's lists are still not answered: a later event cannot be read (${remedyOf(notice.next.kind)})`,
        );
      return;
    }
    case 'passed over': {
      const { stream, revision, kind, reason } = notice.refused;
      const event = { position: notice.position, stream, revision: String(revision), kind, reason };
      logger.warn(event, 'an event that concerns no list cannot be read, and is ignored');
    }
  }
};

const remedyOf = (kind: RefusalKind): string =>
  kind === 'newer_version' ? 'upgrade this version' : 'plants status names it, plants skip leaves it out';

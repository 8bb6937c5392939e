import { Controller, HttpException, Optional } from '@nestjs/common';
import { HealthCheckService, HealthIndicatorService } from '@nestjs/terminus';
import { type FastifyReply } from 'fastify';
import { AuditorOfProcess } from '../../audit/auditor-status.js';
import { EventLog } from '../../log/event-log.js';
import { activeOf, Generations } from '../../lists/generations.js';
import { ReadModelIncomplete } from '../../lists/read-model.js';
import { Projector } from '../../projection/projector.js';
import { Problem } from '../problem.js';
import { type Asked, Handles } from '../route.js';
import { Shutdown } from '../shutdown.js';
import { healthRoutes } from './health-routes.js';

/** Limit for the answer of a part: shorter than any prober waits. */
const CHECK_TIMEOUT_MS = 2_000;

/** Without the reason, which names files: the endpoint needs no token. */
const RESTART_NEEDED =
  'This process writes nothing to the event log before it is started again, and is expected to after it. Its log and plants status say why.';

/** For those who start, stop and balance processes. */
@Controller()
export class HealthController {
  constructor(
    private readonly checks: HealthCheckService,
    private readonly indicators: HealthIndicatorService,
    private readonly log: EventLog,
    private readonly lists: Generations,
    private readonly shutdown: Shutdown,
    @Optional() private readonly projector?: Projector,
    @Optional() private readonly auditor?: AuditorOfProcess,
  ) {}

  /**
   * The process runs and answers, and a restart would mend nothing. Restart it when that is not so: it does not answer,
   * or it writes nothing before a restart and is expected to write after one. Not while a disk is full or a file of the
   * log is missing: then a restart would only end the lists, too.
   */
  @Handles(healthRoutes.live)
  live(_asked: Asked<typeof healthRoutes.live>, reply: FastifyReply) {
    if (!this.log.health().restartHelps) return { status: 'ok' };
    reply.header('retry-after', '1');
    throw new Problem('restart_needed', RESTART_NEEDED);
  }

  /** 200 where every part works; else 503 with the part that does not, and why. */
  @Handles(healthRoutes.ready)
  async ready(_asked: Asked<typeof healthRoutes.ready>, reply: FastifyReply) {
    try {
      return await this.#check();
    } catch (error) {
      const details = detailsOf(error);
      const parts = Object.keys(details).filter((part) => details[part]?.status === 'down');
      reply.header('retry-after', '1');
      throw new Problem('not_ready', `Not ready: ${parts.join(', ')}.`, { members: { parts: details } });
    }
  }

  /** By name, true where it works. Takes CHECK_TIMEOUT_MS at most. */
  async parts(): Promise<Record<string, boolean>> {
    const details = await this.#check().then(
      (result) => result.details,
      (error: unknown) => detailsOf(error),
    );
    return Object.fromEntries(Object.entries(details).map(([part, { status }]) => [part, status === 'up']));
  }

  #check() {
    // Load balancers must see at once that the process stops: no part is checked then.
    if (this.shutdown.begun) return this.checks.check([() => this.#process()]);
    const { projector, auditor } = this;
    return this.checks.check([
      () => this.#process(),
      () => this.#eventLog(),
      () => this.#readModel(),
      ...(projector ? [() => this.#projector(projector)] : []),
      ...(auditor ? [() => this.#auditor(auditor)] : []),
    ]);
  }

  #process() {
    const indicator = this.indicators.check('process');
    return this.shutdown.begun ? indicator.down('it is shutting down') : indicator.up();
  }

  #eventLog() {
    return this.indicators
      .check('event_log')
      .attempt(() => this.log.ready())
      .withTimeout(CHECK_TIMEOUT_MS);
  }

  #readModel() {
    return this.indicators
      .check('read_model')
      .attempt(async () => {
        if (!activeOf(await this.lists.generations()))
          throw new ReadModelIncomplete('it is being built from the log');
      })
      .withTimeout(CHECK_TIMEOUT_MS);
  }

  #projector(projector: Projector) {
    const { since, ...status } = projector.status;
    const indicator = this.indicators.check('projector');
    const data = Object.fromEntries(Object.entries(status).map(([name, value]) => [name, String(value)]));
    return projector.keepsUp
      ? indicator.up({ ...data, since: since.toISOString() })
      : indicator.down({ ...data, since: since.toISOString() });
  }

  /**
   * Shows the auditor's state, and never fails readiness: plants can be written and listed without it, and an altered
   * log must not stop the service.
   */
  #auditor(auditor: AuditorOfProcess) {
    const { state, since, size, checkpoint, alarm } = auditor.status;
    return this.indicators.check('auditor').up({
      state,
      since: since.toISOString(),
      size: String(size),
      ...(checkpoint ? { signed: String(checkpoint.size) } : {}),
      ...(alarm ? { alarm: alarm.kind } : {}),
    });
  }
}

/** The result of Terminus, which throws it inside Nest's exception. Throws every other error. */
const detailsOf = (error: unknown): Record<string, { status: string }> => {
  if (!(error instanceof HttpException)) throw error;
  return (error.getResponse() as { details: Record<string, { status: string }> }).details;
};

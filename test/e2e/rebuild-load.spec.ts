import { afterEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type SystemStatus } from '../../src/operations/system-status.js';
import { plantStream } from '../../src/domain/stream.js';
import { type EventLog, LogUnavailable, type NewEvent, OutcomeUnknown } from '../../src/log/event-log.js';
import { CliProcess } from '../support/cli-process.js';
import { violationsOf } from '../support/history.js';
import { sampleMetadata } from '../support/log-events.js';
import { TestService } from '../support/service.js';
import { SteadyTraffic } from '../support/steady-run.js';
import { STORES } from '../support/stores-of-this-run.js';

/** Events in the log before the rebuild: `npm run test:all -- --lane rebuild` takes 200,000. */
const EVENTS = Number(process.env.REBUILD_EVENTS ?? 6_000);

/** The long form measures, on a machine that has nothing else to do. */
const MEASURES = process.env.REBUILD_EVENTS !== undefined;

/** Milliseconds for which lists are measured without a rebuild. */
const IDLE_MS = MEASURES ? 20_000 : 1_000;

const OWNERS_BEFORE = 50;

/** Appends at a time while the log is filled: few enough for a server on a slow disk to write within their deadline. */
const FILLING = 200;

const PER_SECOND = Number(process.env.REBUILD_PER_SECOND ?? 150);

interface Sample {
  readonly at: number;
  readonly share: number;
  readonly secondsLeft: number | null;
}

/** On servers, a process for each role is what docs/runbook.md advises; it is measured so. */
const ROLES = MEASURES && STORES === 'servers' ? ['projector', 'auditor'] : [];

describe(`a rebuild of ${EVENTS} events under constant traffic`, () => {
  let service: TestService;
  let others: TestService[];
  afterEach(async () => {
    CliProcess.killAll();
    for (const other of others) await other.leave();
    await service.remove();
  });

  const start = async (): Promise<void> => {
    service = await TestService.start({
      WRITE_WAIT_MS: '10000',
      ...(ROLES.length > 0 ? { ROLES: 'api' } : {}),
    });
    others = [];
    for (const role of ROLES) others.push(await service.startBeside({ ROLES: role }));
  };

  /** Waits until the auditor has been through what was there before: that is no part of what is measured. */
  const audited = async (): Promise<void> => {
    const { url } = others.at(-1) ?? service;
    const size = async (): Promise<number> =>
      Number(/^plants_tree_size (\d+)/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1]);
    while ((await size()) < EVENTS) await delay(100);
  };

  /** Other owners' plants, created and half of them deleted again. */
  const fill = async (log: EventLog): Promise<void> => {
    // A slow server may take longer than an append's deadline: with the same ids it may be tried again.
    const append = async (stream: string, events: NewEvent[]): Promise<unknown> => {
      for (;;)
        try {
          return await log.append(stream, 'none', events);
        } catch (error) {
          if (!(error instanceof OutcomeUnknown || error instanceof LogUnavailable)) throw error;
        }
    };
    let waiting: Promise<unknown>[] = [];
    for (let written = 0, id = 1; written < EVENTS; written += 3, id++) {
      const owner = `before ${id % OWNERS_BEFORE}`;
      const event = (type: string, data: object) => ({
        id: randomUUID(),
        type,
        data: { id, ...data },
        metadata: sampleMetadata({ actor: { sub: owner } }),
      });
      const created = { name: `plant ${id}`, tag: 'of before' };
      waiting.push(
        append(plantStream(owner, id), [
          event('PlantCreated', created),
          event('PlantDeleted', {}),
          event('PlantCreated', created),
        ]),
      );
      if (waiting.length < FILLING) continue;
      await Promise.all(waiting);
      waiting = [];
    }
    await Promise.all(waiting);
  };

  it(
    'fails no request, lets no list lie or go back, and tells how long it takes',
    async () => {
      await start();
      await service.ready();
      await service.writing(fill);
      await service.ready();
      await audited();

      const seed = Date.now() % 1_000_000;
      const owners = ['alice', 'bob', 'Zoë/1', '木'];
      const traffic = new SteadyTraffic(service, {
        seed,
        clients: 40,
        owners,
        ids: 30,
        perSecond: PER_SECOND,
      });
      const token = await service.token('olga', 'plants:operate');
      // Begun before anything is measured: the start of a process takes a core for a while.
      const watching = CliProcess.piped(['status', '--watch', '--json'], service.env);
      await traffic.start();
      await delay(IDLE_MS); // that is what is measured, not waited for
      traffic.takeLatencies(); // the first are slow
      await delay(IDLE_MS);
      const idle = traffic.takeLatencies();

      const asked = performance.now();
      const requested = await fetch(`${service.url}/operations/rebuilds`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
      });
      const { rebuild } = (await requested.json()) as { readonly rebuild: string };
      const samples: Sample[] = [];
      let ended: SystemStatus | undefined;
      for await (const line of watching.lines()) {
        const status = JSON.parse(line) as SystemStatus;
        if (status.rebuild?.share != null)
          samples.push({
            at: performance.now(),
            share: status.rebuild.share,
            secondsLeft: status.rebuild.secondsLeft,
          });
        if (status.lastRebuild?.rebuild !== rebuild) continue;
        ended = status;
        break;
      }
      if (!ended) throw new Error(`nobody watches any more: ${watching.stderr}`);
      const over = performance.now();
      const during = traffic.takeLatencies();
      watching.signal('SIGINT');
      await traffic.stop();

      const wholeMs = over - asked;
      const errors = samples
        .filter(({ at }) => at - asked > wholeMs / 2)
        .map(({ at, secondsLeft }) => Math.abs((secondsLeft ?? 0) * 1_000 - (over - at)) / wholeMs);
      const figures = {
        stores: STORES,
        events: EVENTS,
        seconds: wholeMs / 1_000,
        operations: traffic.operations.length,
        idle,
        during,
        p99Ratio: during.p99 / idle.p99,
        estimates: errors.length,
        worstEstimate: Math.max(...errors),
        problems: traffic.counts,
      };
      if (MEASURES) process.stdout.write(`${JSON.stringify(figures)}\n`);

      expect(ended.lastRebuild?.outcome).toBe('promoted');
      const log = (await service.events()).filter(({ metadata }) =>
        (metadata as { correlationId: string }).correlationId.startsWith('op-'),
      );
      const violations = violationsOf(traffic.operations, log);
      expect({ seed, count: violations.length, first: violations.slice(0, 5) }).toEqual({
        seed,
        count: 0,
        first: [],
      });
      expect(traffic.counts).toEqual({}); // no 503, no connection that was cut
      const shares = samples.map(({ share }) => share);
      expect(shares).toEqual([...shares].sort((one, other) => one - other));

      if (!MEASURES) return;
      expect(figures.p99Ratio).toBeLessThanOrEqual(2);
      expect(figures.worstEstimate).toBeLessThanOrEqual(0.2);
    },
    20 * 60_000,
  );
});

import { Counter, Gauge, type Registry } from 'prom-client';
import { type Pipelining } from '../http/pipelining.js';
import { type UnsentAnswers } from '../http/unsent-answers.js';

/** Adds figures about connections, and about what waits on them. */
export const showConnections = (
  registry: Registry,
  unsent: Pick<UnsentAnswers, 'bytes' | 'connections' | 'cut'>,
  pipelining: Pick<Pipelining, 'waiting'>,
): void => {
  const registers = [registry];
  new Gauge({
    name: 'plants_http_connections',
    help: 'Open connections.',
    registers,
    collect() {
      this.set(unsent.connections);
    },
  });
  new Gauge({
    name: 'plants_http_unsent_bytes',
    help: 'Bytes of answers that clients have not taken yet.',
    registers,
    collect() {
      this.set(unsent.bytes);
    },
  });
  new Gauge({
    name: 'plants_http_requests_waiting',
    help: 'Requests that wait for an earlier one of their connection.',
    registers,
    collect() {
      this.set(pipelining.waiting);
    },
  });
  new Counter({
    name: 'plants_http_connections_cut_total',
    help: 'Connections that were cut: stalled (the client did not read its answer), overload (its answer was the slowest when there was no room for another), refused (there were too many connections).',
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(unsent.cut)) this.inc({ reason }, count);
    },
  });
};

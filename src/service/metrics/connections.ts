import { type Registry } from 'prom-client';
import { type Pipelining } from '../../http/pipelining.js';
import { type ResponseBackpressure } from '../../http/response-backpressure.js';
import { showCounter, showGauge } from './gauge.js';

/** Adds figures about connections, and about what waits on them. */
export const showConnections = (
  registry: Registry,
  unsent: Pick<ResponseBackpressure, 'bytes' | 'connections' | 'cut'>,
  pipelining: Pick<Pipelining, 'waiting'>,
): void => {
  showGauge(registry, 'plants_http_connections', 'Open connections.', () => unsent.connections);
  showGauge(
    registry,
    'plants_http_unsent_bytes',
    'Bytes of answers that clients have not taken yet.',
    () => unsent.bytes,
  );
  showGauge(
    registry,
    'plants_http_requests_waiting',
    'Requests that wait for an earlier one of their connection.',
    () => pipelining.waiting,
  );
  showCounter(
    registry,
    'plants_http_connections_cut_total',
    'Connections that were cut: stalled (the client did not read its answer), overload (its answer was the slowest when there was no room for another), refused (there were too many connections).',
    'reason',
    () => unsent.cut,
  );
};

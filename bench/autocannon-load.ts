/** One load by autocannon, in a process of its own: the load as JSON in its argument, the result on standard output. */
import autocannon from 'autocannon';
import { type Load, TIMEOUT_SECONDS } from './load.js';
import { requestsOf } from './requests.js';

const load = JSON.parse(process.argv[2] ?? '{}') as Load;
const next = requestsOf(load);
const result = await autocannon({
  url: load.url,
  connections: load.connections,
  duration: load.seconds,
  timeout: TIMEOUT_SECONDS,
  requests: [{ setupRequest: (request) => ({ ...request, ...next() }) }],
});
process.stdout.write(
  `RESULT ${JSON.stringify({
    requests: result.requests.total,
    seconds: result.duration,
    failed: result.non2xx + result.errors,
    p50: result.latency.p50,
    p99: result.latency.p99,
    p999: result.latency.p99_9,
  })}\n`,
);

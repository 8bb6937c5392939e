import { type Connection, type Host, type Work } from './network.js';

/** A server in real time, for the contract suites. */
export const REAL_HOST: Host = {
  nowMs: () => performance.now(),
  after: (ms, _what, run) => {
    if (ms === 0) setImmediate(run);
    else setTimeout(run, ms).unref();
  },
};

/** A network in real time on which nothing is lost: a message takes a turn of the event loop. */
export const realConnection = (): Connection => ({
  ask: <T>(_what: string, work: Work<T>) =>
    new Promise<T>((resolve, reject) => {
      setImmediate(() => {
        work(
          (result) => setImmediate(resolve, result),
          (error) => setImmediate(reject, error),
        );
      });
    }),
});

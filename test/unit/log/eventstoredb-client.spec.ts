import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { StreamsClient } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { type Readable } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import { promisify } from 'node:util';
import { setImmediate } from 'node:timers/promises';
import { type EventStoreOptions, openEventStoreDb } from '../../../src/log/eventstoredb/event-log.js';
import { parseEventStoreUrl } from '../../../src/log/eventstoredb/connection-string.js';
import { type EventLog, type LogBatch, LogUnavailable, type Position } from '../../../src/log/event-log.js';
import { TEST_CERTIFICATE, TEST_KEY } from '../../support/eventstore/certificate.js';
import { FakeEventStore, FakeCluster } from '../../support/eventstore/fake-event-store.js';
import { FakeProcess } from '../../support/eventstore/fake-event-store-process.js';
import { CLI } from '../../support/http-cli.js';
import { freshStream, idsOf, newEvents } from '../../support/log-events.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

/** Behaviour that the client library lacks: surviving the loss of a leader, and ending calls. */
describe('the client of EventStoreDB', () => {
  let cleanUp: (() => unknown)[];
  beforeEach(() => {
    cleanUp = [];
  });
  afterEach(async () => {
    for (const clean of cleanUp.reverse()) await clean();
  });

  const open = async (url: string, options: EventStoreOptions): Promise<EventLog> => {
    const log = await openEventStoreDb(parseEventStoreUrl(url), options);
    cleanUp.push(() => log.close());
    return log;
  };

  const subscribed = (log: EventLog, after: Position): AsyncIterator<LogBatch, unknown> => {
    const stop = new AbortController();
    cleanUp.push(() => {
      stop.abort();
    });
    return log.subscribe(after, stop.signal)[Symbol.asyncIterator]();
  };

  describe('of a cluster', () => {
    it('survives calls that fail while it searches for a leader and finds none', async () => {
      const cluster = await FakeCluster.start(3);
      cleanUp.push(() => cluster.stop());
      const log = await open(cluster.url, { deadlineMs: 5_000, readDeadlineMs: 5_000 });
      const batches = subscribed(log, await log.head());
      await batches.next();
      await cluster.loseMajority();
      await expect(log.head()).rejects.toBeInstanceOf(LogUnavailable);
      await expect(log.head()).rejects.toThrow('has no leader that can be reached');
      const [, next] = cluster.members;
      if (!next) throw new Error('it has one member');
      await cluster.regainMajority(next);
      await log.append(freshStream(), 'none', newEvents(1));
    });
  });

  it('lets the process end while it searches for a leader among hosts that do not answer', async () => {
    const mute = createServer();
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    cleanUp.push(() => mute.close());
    const host = `127.0.0.1:${(mute.address() as AddressInfo).port}`;
    const module = (file: string): string =>
      JSON.stringify(new URL(`../../../src/log/eventstoredb/${file}.js`, import.meta.url).href);
    const program = `
      import { openEventStoreDb } from ${module('event-log')};
      import { parseEventStoreUrl } from ${module('connection-string')};
      await openEventStoreDb(parseEventStoreUrl(process.argv[1]), { openMs: 500 }).catch(() => undefined);
    `;
    await promisify(execFile)(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        program,
        `esdb://${host},${host}?tls=false&gossipTimeout=1&discoveryInterval=1&maxDiscoverAttempts=150`,
      ],
      { timeout: 150_000 }, // all attempts take 300 s
    );
  });

  it('listens to the end of its connection for many reads at once without a warning', async () => {
    const server = await FakeEventStore.start();
    cleanUp.push(() => server.stop());
    const log = await open(server.url, {});
    const warnings: unknown[] = [];
    const note = (warning: unknown): void => {
      warnings.push(warning);
    };
    process.on('warning', note);
    cleanUp.push(() => process.off('warning', note));
    await Promise.all(Array.from({ length: 50 }, () => log.head()));
    await setImmediate();
    expect(warnings).toEqual([]);
  });

  it('prints no warning of Node where a TLS server is named by its IP address', async () => {
    const folder = temporaryFolder();
    const ca = join(folder, 'ca.crt');
    writeFileSync(ca, TEST_CERTIFICATE);
    const server = await FakeEventStore.start({ tls: { key: TEST_KEY, cert: TEST_CERTIFICATE } });
    cleanUp.push(() => server.stop());
    const url = `esdb://127.0.0.1:${server.port}?tlsCAFile=${ca}`;
    const target = `sqlite:${join(folder, 'events.db')}`;
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [CLI, 'copy', '--from', url, '--to', target, '--json'],
      { timeout: 30_000 },
    );
    expect(stdout).toMatch(/"events":0/);
    expect(stderr).not.toMatch(/DEP0123|ServerName/);
  });

  it('sends a server name in TLS only where it has one', async () => {
    const folder = temporaryFolder();
    const tlsCAFile = join(folder, 'ca.crt');
    writeFileSync(tlsCAFile, TEST_CERTIFICATE);
    const namesSentTo = async (hosts: string): Promise<string[]> => {
      const names = new Set<string>();
      const server = createTlsServer(
        { key: TEST_KEY, cert: TEST_CERTIFICATE, ALPNProtocols: ['h2'] },
        (socket) => {
          // Node has false here where none was sent, and its types do not say so.
          names.add((socket as unknown as { servername: string | false }).servername || '');
          socket.on('error', () => undefined).destroy();
        },
      );
      await new Promise<void>((resolve) => server.listen(0, resolve));
      cleanUp.push(() => server.close());
      const { port } = server.address() as AddressInfo;
      const url = `esdb://${hosts.replaceAll('PORT', String(port))}?tlsCAFile=${tlsCAFile}`;
      // Long enough for one handshake on a busy machine: the server never answers.
      await expect(open(url, { openMs: 5_000 })).rejects.toBeInstanceOf(LogUnavailable);
      return [...names];
    };
    const hosts = ['127.0.0.1:PORT', '127.0.0.1:PORT,127.0.0.1:PORT', 'localhost:PORT'];
    expect(await Promise.all(hosts.map(namesSentTo))).toEqual([[''], [''], ['localhost']]);
  });

  it('lets go of reads that ran out of time while their answer arrived', async () => {
    const server = await FakeProcess.start();
    cleanUp.push(() => server.stop());
    const log = await open(server.url, { readDeadlineMs: READ_MS, stallMs: 60_000 });
    const calls = jest.spyOn(StreamsClient.prototype, 'read');
    const subscriptions = jest.spyOn(StreamsClient.prototype, 'makeServerStreamRequest');
    cleanUp.push(() => {
      calls.mockRestore();
      subscriptions.mockRestore();
    });
    const stream = freshStream();
    const events = newEvents(2);
    await log.append(stream, 'none', events);
    const before = await log.head();
    for (let append = 0; append < 3; append += 1) await log.append(freshStream(), 'none', newEvents(200));
    const batches = subscribed(log, before);
    const first = batches.next(); // of 500 events at most: others have arrived, and wait
    let received = 0;
    const counted = new Set<unknown>();
    while (received <= 500) {
      for (const { value } of subscriptions.mock.results) {
        const call = value as Readable;
        if (counted.has(call)) continue;
        counted.add(call);
        call.on('data', () => (received += 1));
      }
      await setImmediate();
    }
    await first;

    server.freeze();
    const reads = Array.from({ length: 5 }, () => log.readStream(stream));
    // The events that the subscription has received are a sign of life: the connection is kept.
    expect(((await batches.next()).value as LogBatch).events.length).toBeGreaterThan(0);
    for (let turn = 0; turn < 50; turn += 1) await setImmediate(); // the requests are sent
    server.thaw();
    block(READ_MS + 200);
    const outcomes = await Promise.allSettled(reads);
    const late = { status: 'rejected', reason: expect.any(LogUnavailable) as unknown };
    expect(outcomes).toEqual(Array(5).fill(late));
    expect(idsOf(await log.readStream(stream))).toEqual(idsOf(events));
    const unread = calls.mock.results.filter(({ value }) => {
      const call = value as Readable;
      return call.readableLength > 0 && !call.destroyed;
    });
    expect(unread.length).toBe(0);
    await log.close();
  });
});

/** Longer than a read takes, and short enough to wait for. */
const READ_MS = 300;

/** Holds up the event loop, as a long task does: timers that are due come before what has arrived meanwhile. */
const block = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
};

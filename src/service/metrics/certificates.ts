import { connect } from 'node:tls';
import { isIP } from 'node:net';
import { Gauge, type Registry } from 'prom-client';

/** The servers of a store that are spoken to with TLS. */
export interface TlsStore {
  /** The label `store`. */
  readonly store: 'event_log' | 'read_model';
  readonly servers: readonly { readonly host: string; readonly port: number }[];
}

/** Milliseconds for which a result is shown before servers are asked again: certificates hold for weeks. */
const ASK_EVERY_MS = 600_000;

/** Limit for a server to show its certificate. */
const HANDSHAKE_MS = 5_000;

/**
 * Adds when the certificates of the servers expire, as a client sees them: the first of them for each store. The
 * clients of both stores keep their sockets to themselves, so a connection of its own asks, on which nothing is sent.
 * A scrape never waits for it: the first one shows nothing yet.
 */
export const showCertificates = (
  registry: Registry,
  stores: readonly TlsStore[],
  { askEveryMs = ASK_EVERY_MS, monotonic = () => performance.now() } = {},
): void => {
  const found = new Map<string, number>();
  let asking = false;
  let askedAt = -Infinity;
  const ask = async (): Promise<void> => {
    for (const { store, servers } of stores) {
      const ends = await Promise.all(
        servers.map(({ host, port }) => expiryOf(host, port).catch(() => undefined)),
      );
      const known = ends.filter((end) => end !== undefined);
      if (known.length > 0) found.set(store, Math.min(...known));
      else found.delete(store);
    }
  };
  new Gauge({
    name: 'plants_certificate_expiry_timestamp_seconds',
    help: "When the first certificate of a store's servers expires, in seconds since 1970; absent without TLS.",
    labelNames: ['store'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [store, end] of found) this.set({ store }, end);
      if (asking || stores.length === 0 || monotonic() - askedAt < askEveryMs) return;
      asking = true;
      askedAt = monotonic();
      void ask().finally(() => (asking = false));
    },
  });
};

/** The end of a server's certificate in seconds since 1970; undefined where it shows none in time. Rejects where the host is none. */
const expiryOf = (host: string, port: number): Promise<number | undefined> =>
  new Promise((resolve) => {
    const socket = connect({
      host,
      port,
      // A name only: RFC 6066 allows no address.
      ...(isIP(host) === 0 && { servername: host }),
      rejectUnauthorized: false, // also a certificate that has expired is to be seen; nothing is sent
    });
    const end = (expiry?: number): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(expiry);
    };
    const timer = setTimeout(end, HANDSHAKE_MS);
    timer.unref();
    socket.unref();
    socket.on('error', () => {
      end();
    });
    socket.once('close', () => {
      end();
    });
    socket.once('secureConnect', () => {
      const expiry = Date.parse(socket.getPeerCertificate().valid_to) / 1_000;
      end(Number.isNaN(expiry) ? undefined : expiry);
    });
  });

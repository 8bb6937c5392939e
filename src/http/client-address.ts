import { type IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv4 } from 'node:net';
import { type Subnet } from '../service/network-config.js';

/** The IP address of the client that sent a request. */
export type ClientAddressOf = (request: Pick<IncomingMessage, 'headers' | 'socket'>) => string;

/** The address of a connection that has none any more, such as one that was closed. */
const UNKNOWN = 'unknown';

/** More addresses than this in one X-Forwarded-For are not looked at: no chain of proxies is as long. */
const MAX_HOPS = 20;

/**
 * Finds the addresses of clients. A request that comes from a trusted proxy has its client's address in
 * `X-Forwarded-For`: proxies append, so the list is read from its end, and the first address that is no trusted proxy
 * is the client's. What stands before that was sent by the client itself and is ignored, as is the whole header field
 * where the connection does not come from a trusted proxy. `Forwarded` (RFC 7239) is not read: a proxy that writes one
 * of the two fields passes the other on as the client sent it.
 */
export const clientAddresses = (trustedProxies: readonly Subnet[]): ClientAddressOf => {
  if (trustedProxies.length === 0) return ({ socket }) => peerOf(socket);
  const trusted = new BlockList();
  for (const { address, prefix } of trustedProxies) trusted.addSubnet(address, prefix, familyOf(address));
  const isTrusted = (address: string): boolean =>
    isIP(address) !== 0 && trusted.check(address, familyOf(address));
  return ({ headers, socket }) => {
    let client = peerOf(socket);
    if (!isTrusted(client)) return client;
    const forwarded = headers['x-forwarded-for'];
    if (typeof forwarded !== 'string') return client;
    let end = forwarded.length;
    for (let hop = 0; hop < MAX_HOPS && end >= 0; hop += 1) {
      const start = end === 0 ? -1 : forwarded.lastIndexOf(',', end - 1);
      const address = addressIn(forwarded.slice(start + 1, end).trim());
      // Not an address: the nearest hop that is known stands for the client.
      if (address === undefined) return client;
      client = address;
      if (!isTrusted(client)) return client;
      end = start;
    }
    return client;
  };
};

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIPv4(address) ? 'ipv4' : 'ipv6');

const peerOf = ({ remoteAddress }: IncomingMessage['socket']): string =>
  remoteAddress === undefined ? UNKNOWN : unmapped(remoteAddress);

/** An IPv4 address that a socket for both families gives as `::ffff:192.0.2.1`, in its usual form. */
const unmapped = (address: string): string => {
  const plain = address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
  return isIPv4(plain) ? plain : address;
};

/** The address in one entry of X-Forwarded-For. Some proxies add the port, with brackets around an IPv6 address. */
const addressIn = (entry: string): string | undefined => {
  if (isIP(entry) !== 0) return unmapped(entry);
  const address = /^\[([^\]]{1,45})\](?::\d{1,5})?$|^([\d.]{7,15}):\d{1,5}$/.exec(entry);
  const found = address?.[1] ?? address?.[2] ?? '';
  return isIP(found) === 0 ? undefined : unmapped(found);
};

import { describe, expect, it } from '@jest/globals';
import { type IncomingMessage } from 'node:http';
import { loadConfig } from '../../../src/service/config.js';
import { clientAddresses } from '../../../src/http/client-address.js';
import { growth, NO_SQUARE } from '../../support/growth.js';

/** The client of a request from `peer`, where `TRUSTED_PROXIES` is `trusted`. */
const clientOf = (trusted: string, peer: string | undefined, forwardedFor?: string): string =>
  clientAddresses(loadConfig({ TRUSTED_PROXIES: trusted }).trustedProxies)({
    headers: forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor },
    socket: { remoteAddress: peer } as IncomingMessage['socket'],
  });

describe('the address of a client', () => {
  it.each([
    ['without trusted proxies', '', '192.0.2.1', '198.51.100.7', '192.0.2.1'],
    ['not from a trusted proxy', '10.0.0.0/8', '192.0.2.1', '198.51.100.7', '192.0.2.1'],
    ['from a trusted proxy', '10.0.0.0/8', '10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['from one by its single address', '10.1.2.3', '10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['beside that single address', '10.1.2.3', '10.1.2.4', '198.51.100.7', '10.1.2.4'],
    ['what the client wrote itself', '10.0.0.0/8', '10.1.2.3', '203.0.113.9, 198.51.100.7', '198.51.100.7'],
    ['through two trusted proxies', '10.0.0.0/8', '10.1.2.3', '198.51.100.7, 10.9.9.9', '198.51.100.7'],
    ['of trusted addresses only', '10.0.0.0/8', '10.1.2.3', '10.4.4.4,10.9.9.9', '10.4.4.4'],
    ['without the header field', '10.0.0.0/8', '10.1.2.3', undefined, '10.1.2.3'],
    ['an empty header field', '10.0.0.0/8', '10.1.2.3', '', '10.1.2.3'],
    ['no address', '10.0.0.0/8', '10.1.2.3', 'unknown', '10.1.2.3'],
    ['no address before a proxy', '10.0.0.0/8', '10.1.2.3', '198.51.100.7, <b>, 10.9.9.9', '10.9.9.9'],
    ['with a port', '10.0.0.0/8', '10.1.2.3', '198.51.100.7:4711', '198.51.100.7'],
    ['IPv6', 'fd00::/8', 'fd00::1', '2001:db8::7', '2001:db8::7'],
    ['IPv6 in brackets, with a port', 'fd00::/8', 'fd00::1', '[2001:db8::7]:4711', '2001:db8::7'],
    ['IPv4 on a socket of both', '10.0.0.0/8', '::ffff:10.1.2.3', '::ffff:198.51.100.7', '198.51.100.7'],
    ['a trusted list of several', 'fd00::/8, 10.0.0.0/8', '10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['a closed connection', '10.0.0.0/8', undefined, '198.51.100.7', 'unknown'],
  ])('%s', (_what, trusted, peer, forwardedFor, expected) => {
    expect(clientOf(trusted, peer, forwardedFor)).toBe(expected);
  });

  it('costs little, however long the header field is', () => {
    const long = '10.1.1.1,'.repeat(1_800);
    expect(clientOf('10.0.0.0/8', '10.1.2.3', long)).toBe('10.1.2.3'); // ends with an empty entry
    const asked = (size: number): unknown =>
      clientOf('10.0.0.0/8', '10.1.2.3', `${'10.1.1.1,'.repeat(size)}10.1.1.1`);
    expect(growth(500, asked)).toBeLessThan(NO_SQUARE);
  });
});

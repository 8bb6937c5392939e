import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { inspect } from 'node:util';
import { describeConnection, parseEventStoreUrl } from '../../../src/log/eventstoredb/connection-string.js';
import { BadStoreUrl } from '../../../src/log/store-url.js';

/** The line with which a URL is refused. */
const refusal = (url: string): string => {
  try {
    parseEventStoreUrl(url);
  } catch (error) {
    expect(error).toBeInstanceOf(BadStoreUrl);
    const { message } = error as BadStoreUrl;
    expect(message).not.toContain('\n');
    return message;
  }
  throw new Error('it was taken');
};

describe('the URL of an EventStoreDB', () => {
  it('names one server, with TLS unless it says otherwise', () => {
    const place = parseEventStoreUrl('esdb://plants.example');
    expect(place).toMatchObject({
      hosts: ['plants.example'],
      endpoints: [{ address: 'plants.example', port: 2113 }],
      cluster: false,
      tls: true,
      namespace: '',
      settings: {},
    });
    expect(place.credentials()).toBeUndefined();
    expect(parseEventStoreUrl(' esdb://127.0.0.1:2114/?tls=false ')).toMatchObject({
      endpoints: [{ address: '127.0.0.1', port: 2114 }],
      tls: false,
    });
  });

  it.each([
    ['esdb://a,b:2114,c.example:1/?tls=true', ['a', 'b', 'c.example']],
    ['esdb+discover://cluster.example:2113', ['cluster.example']],
    ['ESDB+DISCOVER://a,b', ['a', 'b']],
  ])('names a cluster, in which the leader is looked for: %s', (url, hosts) => {
    expect(parseEventStoreUrl(url)).toMatchObject({ hosts, cluster: true });
  });

  it('has a user with any password', () => {
    const place = parseEventStoreUrl('esdb://ad%C3%A4:p%40%2F%3F:%25@host:2113');
    expect(place.credentials()).toEqual({ username: 'adä', password: 'p@/?:%' });
    expect(place.hosts).toEqual(['host']);
  });

  it('takes every parameter of the client, in any spelling, and a namespace', () => {
    const url =
      'esdb://h?tlsCAFile=%2Fetc%2Fca.crt&user_cert_file=/c.pem&USERKEYFILE=/k.pem&tlsVerifyCert=true' +
      '&nodePreference=readOnlyReplica&maxDiscoverAttempts=3&discoveryInterval=50&gossip-timeout=4' +
      '&keepAliveInterval=-1&keepAliveTimeout=9000&defaultDeadline=1500&connectionName=plants%20api' +
      '&throwOnAppendFailure=true&namespace=stage-2';
    expect(parseEventStoreUrl(url)).toMatchObject({
      tlsCAFile: '/etc/ca.crt',
      userCertificate: { certFile: '/c.pem', keyFile: '/k.pem' },
      namespace: 'stage-2',
    });
    expect(parseEventStoreUrl(url).settings).toEqual({
      maxDiscoverAttempts: 3,
      discoveryInterval: 50,
      gossipTimeout: 4,
      keepAliveInterval: -1,
      keepAliveTimeout: 9000,
      defaultDeadline: 1500,
      connectionName: 'plants api',
    });
  });

  it.each([
    ['', 'esdb://'],
    ['sqlite:x', 'esdb://'],
    ['esdb:host', 'esdb://'],
    ['kurrentdb://host', 'esdb instead of kurrentdb'],
    ['esdb://', 'each host'],
    ['esdb://host:', 'each host'],
    ['esdb://host:0', 'each host'],
    ['esdb://host:65536', 'each host'],
    ['esdb://host:1:2', 'each host'],
    ['esdb://ho_st-', 'each host'],
    ['esdb://a,,b', 'each host'],
    ['esdb://a/b', 'each host'],
    ['esdb://[::1]:2113', 'each host'],
    ['esdb://user@host', 'password'],
    ['esdb://:secret@host', 'password'],
    ['esdb://user:@host', 'password'],
    ['esdb://user:pa@ss@host', 'encode'],
    ['esdb://user:pa?ss@host', 'encode'],
    ['esdb://user:100%@host', '%25'],
    ['esdb://host?colour=green', 'colour'],
    ['esdb://host?tls', 'tls must be true or false'],
    ['esdb://host?tls=', 'tls must be true or false'],
    ['esdb://host?tls=yes', 'tls must be true or false'],
    ['esdb://host?tls=true&TLS=false', 'tls occurs twice'],
    ['esdb://host?tlsVerifyCert=false', 'tlsCAFile'],
    ['esdb://host?throwOnAppendFailure=false', 'throwOnAppendFailure must be true'],
    ['esdb://host?keepAliveInterval=-2', 'keepAliveInterval must be'],
    ['esdb://host?keepAliveTimeout=10s', 'keepAliveTimeout must be'],
    ['esdb://host?defaultDeadline=0', 'defaultDeadline must be'],
    ['esdb://host?gossipTimeout=1e9', 'gossipTimeout must be'],
    ['esdb://host?connectionName=a%0Ab', 'connectionName must be'],
    ['esdb://host?tlsCAFile=', 'tlsCAFile must be'],
    ['esdb://host?userCertFile=/c.pem', 'userKeyFile'],
    ['esdb://host?userKeyFile=/k.pem', 'userCertFile'],
    ['esdb://host?tls=false&tlsCAFile=/ca', 'tls=false'],
    ['esdb://host?tls=false&userCertFile=/c&userKeyFile=/k', 'tls=false'],
    ['esdb://host?namespace=', 'namespace must be'],
    ['esdb://host?namespace=-a', 'namespace must be'],
    ['esdb://host?namespace=a.b', 'namespace must be'],
    [`esdb://host?namespace=${'a'.repeat(41)}`, 'namespace must be'],
  ])('is refused, with what to do: %s', (url, part) => {
    expect(refusal(url)).toContain(part);
  });

  it('shows neither user nor password, whatever is wrong with it', () => {
    // Such as cannot be a part of what every refusal says.
    const secret = fc.stringMatching(/^[A-Z0-9@/?:%&=]{0,12}Zq7[A-Z0-9@/?:%&=]{0,12}$/);
    fc.assert(
      fc.property(
        secret,
        secret,
        fc.constantFrom('', 'host', 'host:x', 'host?a=b', 'host?tls=x'),
        (user, password, rest) => {
          const url = `esdb://${user}:${password}@${rest}`;
          let shown: string;
          try {
            const place = parseEventStoreUrl(url);
            shown = `${describeConnection(place)} ${JSON.stringify(place)} ${inspect(place, { depth: 9 })}`;
          } catch (error) {
            shown = (error as Error).message;
          }
          expect(shown).not.toContain('Zq7');
        },
      ),
      { numRuns: 500 },
    );
  });

  it('is described by its hosts and its namespace', () => {
    expect(describeConnection(parseEventStoreUrl('esdb://u:p@a,b:1?namespace=n1'))).toBe(
      'esdb://a:2113,b:1 (namespace n1)',
    );
    expect(describeConnection(parseEventStoreUrl('esdb://u:p@a'))).toBe('esdb://a:2113');
  });
});

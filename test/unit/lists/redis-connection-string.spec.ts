import { describe, expect, it } from '@jest/globals';
import { parseRedisUrl } from '../../../src/lists/redis/connection-string.js';
import { BadStoreUrl } from '../../../src/log/store-url.js';

const standalone = { kind: 'standalone', database: 0 };

describe('the URL of a read model on Redis', () => {
  it('names one server', () => {
    expect(parseRedisUrl('redis://cache')).toEqual({
      nodes: [{ host: 'cache', port: 6379 }],
      mode: standalone,
      login: undefined,
      tls: undefined,
    });
    expect(parseRedisUrl('REDIS://[::1]:7000/3')).toMatchObject({
      nodes: [{ host: '::1', port: 7000 }],
      mode: { kind: 'standalone', database: 3 },
    });
    expect(parseRedisUrl('redis://cache/').mode).toEqual(standalone);
  });

  it('holds a login, percent-encoded', () => {
    expect(parseRedisUrl('redis://anne:p%40ss%2F%3A%25@cache').login).toEqual({
      username: 'anne',
      password: 'p@ss/:%',
    });
    expect(parseRedisUrl('redis://:secret@cache').login).toEqual({ username: undefined, password: 'secret' });
  });

  it('asks for TLS, with files', () => {
    expect(parseRedisUrl('rediss://cache').tls).toEqual({ caFile: undefined, own: undefined });
    expect(
      parseRedisUrl('rediss://cache?tlsCAFile=/etc/ca%20x.pem&userCertFile=c.pem&userKeyFile=k=1.pem').tls,
    ).toEqual({ caFile: '/etc/ca x.pem', own: { certFile: 'c.pem', keyFile: 'k=1.pem' } });
  });

  it('names nodes of a cluster', () => {
    expect(parseRedisUrl('rediss+cluster://u:p@a:7001,b,[fe80::1]:7003')).toEqual({
      nodes: [
        { host: 'a', port: 7001 },
        { host: 'b', port: 6379 },
        { host: 'fe80::1', port: 7003 },
      ],
      mode: { kind: 'cluster' },
      login: { username: 'u', password: 'p' },
      tls: { caFile: undefined, own: undefined },
    });
  });

  it('names sentinels, and by what name they know the master', () => {
    expect(parseRedisUrl('redis+sentinel://:p@s1,s2:26380/my%20master/2')).toMatchObject({
      nodes: [
        { host: 's1', port: 26379 },
        { host: 's2', port: 26380 },
      ],
      mode: { kind: 'sentinel', master: 'my master', database: 2, login: undefined },
      login: { password: 'p' },
    });
    expect(parseRedisUrl('redis+sentinel://s1/m?sentinelPassword=x%26y&sentinelUsername=u').mode).toEqual({
      kind: 'sentinel',
      master: 'm',
      database: 0,
      login: { username: 'u', password: 'x&y' },
    });
  });

  it.each([
    ['http://cache', /has the form/],
    ['redis:cache', /has the form/],
    ['redis://a@b@cache', /%40/],
    ['redis://u:hunter2#3@cache', /%23/],
    ['redis://', /host:port/],
    ['redis://ca che', /host:port/],
    ['redis://cache:0', /host:port/],
    ['redis://cache:65536', /host:port/],
    ['redis://[cache]:1', /brackets/],
    ['redis://a,b', /redis\+cluster/],
    ['redis://anne@cache', /user:password/],
    ['redis://anne:@cache', /user:password/],
    ['redis://anne:hunter2:3@cache', /%3A/],
    ['redis://anne:100%hunter2@cache', /the password.*%25/],
    ['redis://%zz:hunter2@cache', /the user name.*%25/],
    ['redis://cache/one', /database/],
    ['redis+cluster://cache/1', /one database/],
    ['redis+sentinel://s', /name of the master/],
    ['redis+sentinel://s/m/1/2', /name of the master/],
    ['redis+sentinel://s/m?sentinelUsername=hunter2', /needs sentinelPassword/],
    ['redis://cache?sentinelPassword=hunter2', /sentinelPassword is for redis\+sentinel/],
    ['redis://cache?tlsCAFile=x', /write rediss/],
    ['rediss://cache?userCertFile=x', /together/],
    ['rediss://cache?tlsCAFile=', /tlsCAFile has no value/],
    ['rediss://cache?tlsCAFile=x&tlsCAFile=y', /twice/],
    ['redis://cache?pool=hunter2', /pool is unknown/],
    ['redis://cache?hunter2=x', /a parameter is unknown/],
  ])('is refused: %s', (url, reason) => {
    const refuse = (): unknown => parseRedisUrl(url);
    expect(refuse).toThrow(BadStoreUrl);
    expect(refuse).toThrow(reason);
    expect(refuse).not.toThrow(/hunter2|\n/);
  });
});

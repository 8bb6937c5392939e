import { isIP, isIPv6 } from 'node:net';
import { bad, type Environment, given, setting } from './setting-values.js';

/** A range of IP addresses: those that share the first `prefix` bits of `address`. */
export interface Subnet {
  readonly address: string;
  readonly prefix: number;
}

/** Origins of web pages that browsers let use the API, as an Origin header names them; `*` for any. */
export type CorsOrigins = readonly string[] | '*';

/** An address to listen on. */
export interface ListenAddress {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
}

/**
 * Throws ConfigError for a subnet of all addresses too: with it each client could choose its address in
 * X-Forwarded-For.
 */
export const trustedProxies = (env: Environment): readonly Subnet[] => {
  const value = given(env, 'TRUSTED_PROXIES');
  if (value === undefined) return [];
  return value.split(',').map((part) => {
    const [, address = '', bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(part.trim()) ?? [];
    const longest = isIP(address) === 4 ? 32 : 128;
    const prefix = bits === undefined ? longest : Number(bits);
    if (isIP(address) === 0 || address.includes('%') || prefix < 1 || prefix > longest)
      throw bad('TRUSTED_PROXIES', value, 'IP addresses or subnets such as 10.0.0.0/8, separated by commas');
    return { address, prefix };
  });
};

/**
 * Throws ConfigError for an origin that is not spelled as an Origin header is (RFC 6454, section 6.2): it would match no
 * request.
 */
export const corsOrigins = (env: Environment): CorsOrigins => {
  const value = given(env, 'CORS_ORIGINS');
  if (value === undefined) return [];
  if (value === '*') return '*';
  return value.split(',').map((part) => {
    const origin = part.trim();
    if (!/^https?:/.test(origin) || !URL.canParse(origin) || new URL(origin).origin !== origin)
      throw bad(
        'CORS_ORIGINS',
        value,
        '*, or origins such as https://app.example, in lower case, without a path and a default port, separated by commas',
      );
    return origin;
  });
};

/** The address to listen on. Throws ConfigError. */
export const host = (env: Environment): string => {
  const value = setting(env, 'HOST');
  if (!/^[A-Za-z0-9._-]+$/.test(value) && !isIPv6(value))
    throw bad('HOST', value, 'an IP address or a host name, without port and brackets');
  return value;
};

/** Reads METRICS_LISTEN. Throws ConfigError. */
export const metrics = (env: Environment): 'api' | 'off' | ListenAddress => {
  const value = given(env, 'METRICS_LISTEN');
  if (value === undefined) return 'api';
  if (value === 'off') return 'off';
  const [, ipv6, name, port] = /^(?:\[([^\]]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(value) ?? [];
  const address = ipv6 ?? name;
  if (address === undefined || (ipv6 !== undefined && !isIPv6(ipv6)) || Number(port) > 65_535)
    throw bad('METRICS_LISTEN', value, 'off, or HOST:PORT such as 127.0.0.1:9464 or [::1]:9464');
  return { host: address, port: Number(port) };
};

import { ReadModelUnavailable } from '../read-model.js';
import { serverAddress, redisError, isReply, RedisRefused } from './error-messages.js';
import { type RedisNode, type RedisConnectionString } from './connection-string.js';
import { type Prepare } from './servers.js';

/** 6.2 is the first with the ACL rules, and with the fixes of scripts' replication, that the service needs. */
const LEAST_VERSION = { major: 6, minor: 2 };

/** Why a server cannot be used, by its INFO; undefined if it can. A missing field counts as right. */
export const serverProblem = (
  info: string,
  node: RedisNode,
  kind: RedisConnectionString['mode']['kind'],
): ReadModelUnavailable | undefined => {
  const field = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const refused = (why: string): RedisRefused => new RedisRefused(`${serverAddress(node)} ${why}`);

  const version = field('redis_version');
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  if (Number(major) * 1_000 + Number(minor) < LEAST_VERSION.major * 1_000 + LEAST_VERSION.minor)
    return refused(
      `has version ${version}: ${LEAST_VERSION.major}.${LEAST_VERSION.minor} or newer is needed`,
    );

  const cluster = field('cluster_enabled');
  if (cluster === '1' && kind !== 'cluster')
    return refused('belongs to a Redis Cluster: write redis+cluster:// in READ_MODEL');
  if (cluster === '0' && kind === 'cluster')
    return refused('belongs to no Redis Cluster: write redis:// in READ_MODEL');

  const policy = field('maxmemory_policy');
  if (policy !== '' && policy !== 'noeviction')
    return refused(
      `may throw plants away when its memory is full (maxmemory-policy ${policy}): CONFIG SET maxmemory-policy noeviction, in redis.conf too`,
    );

  if (field('loading') === '1')
    return new ReadModelUnavailable(`${serverAddress(node)} is still loading its data`);

  if (field('role') === 'slave') {
    if (kind !== 'standalone')
      return new ReadModelUnavailable(`${serverAddress(node)} is a replica now, not the master`);
    const master = `${field('master_host')}:${field('master_port')}`;
    return refused(`is a read-only replica: READ_MODEL must name its master (${master})`);
  }
  return undefined;
};

/** Checks each server after connecting. `onWarning` is called once, where INFO is not allowed or incomplete. */
export const serverCheck = (
  kind: RedisConnectionString['mode']['kind'],
  onWarning: (message: string) => void,
): Prepare => {
  let warned = false;
  const warn = (node: RedisNode): void => {
    if (!warned)
      onWarning(
        `${serverAddress(node)} does not tell its maxmemory-policy: make sure that it is noeviction, or plants may vanish from lists`,
      );
    warned = true;
  };
  return async (client, node) => {
    let info: string;
    try {
      info = await client.sendCommand<string>(['INFO']);
    } catch (thrown) {
      const error = redisError(thrown, node);
      if (!isReply(error, 'NOPERM')) throw error;
      warn(node);
      return;
    }
    const reason = serverProblem(info, node, kind);
    if (reason) throw reason;
    if (!info.includes('maxmemory_policy:')) warn(node);
  };
};

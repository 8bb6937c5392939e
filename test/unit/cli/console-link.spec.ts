import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { consoleLink, type ConsoleRequest } from '../../../src/cli/commands/console.js';
import { UsageError } from '../../../src/cli/exit-status.js';
import { openBrowser, opener } from '../../../src/cli/open-browser.js';
import { loadConfig } from '../../../src/service/config.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { NOON } from '../../support/domain-stores.js';

const REQUEST = { owner: 'anne', expires: '1h' };

describe('a link into the console', () => {
  let server: Server;
  let status: number;
  beforeEach(async () => {
    status = 200;
    server = createServer((_request, response) => response.writeHead(status).end()).listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    server.close();
  });

  const port = () => String((server.address() as AddressInfo).port);
  const linkAt = async (host: string, request: Partial<ConsoleRequest> = {}, at = port()) => {
    const config = loadConfig({ HOST: host, PORT: at, DATA_DIR: temporaryFolder() });
    return (await consoleLink(config, { ...REQUEST, ...request }, NOON)).page;
  };

  it.each(['127.0.0.1', '0.0.0.0', 'localhost'])('leads to this machine where HOST is %s', async (host) => {
    const reached = host === '0.0.0.0' ? '127.0.0.1' : host;
    expect(await linkAt(host)).toBe(`http://${reached}:${port()}/console`);
  });

  it.each(['::', '::1'])('names an address of IPv6 in brackets, where HOST is %s', async (host) => {
    await expect(linkAt(host, {}, '1')).rejects.toThrow(
      'no service answers at http://[::1]:1/console: start it',
    );
  });

  it('leads to --url, whatever HOST and PORT say, also below a path', async () => {
    const url = `http://127.0.0.1:${port()}/plants-of-ours/`;
    expect(await linkAt('::', { url }, '0')).toBe(`${url}console`);
  });

  it.each(['127.0.0.1:3000', 'ftp://127.0.0.1', 'http://'])('refuses --url %s', async (url) => {
    await expect(linkAt('127.0.0.1', { url })).rejects.toThrow(UsageError);
  });

  it('needs --url where the service has taken any free port', async () => {
    await expect(linkAt('127.0.0.1', {}, '0')).rejects.toThrow('PORT is 0: give the address');
  });

  it('says so where the service has no console', async () => {
    status = 404;
    await expect(linkAt('127.0.0.1')).rejects.toThrow('there is no console at');
  });
});

describe('opening the browser', () => {
  it.each<[NodeJS.Platform, NodeJS.ProcessEnv, string | undefined]>([
    ['linux', { DISPLAY: ':0' }, 'xdg-open'],
    ['linux', { WAYLAND_DISPLAY: 'wayland-0' }, 'xdg-open'],
    ['linux', { DISPLAY: '' }, undefined],
    ['darwin', {}, 'open'],
    ['win32', {}, 'explorer.exe'],
    ['darwin', { BROWSER: 'firefox' }, 'firefox'],
  ])('is done on %s with %j by %s', (platform, env, program) => {
    expect(opener(env, platform)).toBe(program);
  });

  it.each<[string, NodeJS.ProcessEnv]>([
    ['BROWSER is nowhere', { BROWSER: '/nowhere/browser' }],
    ['BROWSER fails', { BROWSER: 'false' }],
    ['there is no screen', {}],
  ])('is told to have failed where %s', async (_name, env) => {
    expect(await openBrowser('http://127.0.0.1:1/console#token=x', env)).toBe(false);
  });
});

import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { describeInBrowser, TestBrowser } from '../../support/browser.js';
import { CliProcess } from '../../support/cli-process.js';
import { runCli } from '../../support/http-cli.js';
import { TestService } from '../../support/service.js';
import { until } from '../../support/waiting.js';

afterEach(() => CliProcess.stopAll());

describe('plants console', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await TestService.start();
  });
  afterAll(() => service.remove());
  const plants = (...args: string[]) => runCli(['console', ...args], service.env);

  it('prints a link with a token that is good for an hour', async () => {
    const { status, stdout } = await plants('--owner', 'alice', '--url', service.url, '--no-open', '--json');
    expect(status).toBe(0);
    const { link, expiresAt, opened } = JSON.parse(stdout) as {
      link: string;
      expiresAt: string;
      opened: boolean;
    };
    expect(opened).toBe(false);
    expect(new Date(expiresAt).getTime() - Date.now()).toBeLessThanOrEqual(3_600_000);
    const [page, token = ''] = link.split('#token=');
    expect(page).toBe(`${service.url}/console`);
    const answer = await fetch(`${service.url}/operations/status`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(answer.status).toBe(200);
  });

  it('allows what was asked for, and no more', async () => {
    const { stdout } = await plants(
      '--owner',
      'a',
      '--url',
      service.url,
      '--no-open',
      '--scope',
      'plants:read',
    );
    const token = stdout.trim().split('#token=')[1] ?? '';
    const answer = await fetch(`${service.url}/operations/status`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(answer.status).toBe(403);
  });

  it('hands the browser a file that leads to the link, and no process the token', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plants-test-'));
    const [browser, seen] = [join(folder, 'browser'), join(folder, 'seen')];
    // A browser that keeps what it is told, and what it reads.
    writeFileSync(browser, `#!/bin/sh\necho "$1" > ${seen}.args\ncat "\${1#file://}" > ${seen}\n`, {
      mode: 0o755,
    });
    const { stdout } = await runCli(['console', '--owner', 'alice', '--url', service.url], {
      ...service.env,
      BROWSER: browser,
    });
    const link = /http:\S+#token=\S+/.exec(stdout)?.[0] ?? 'none';
    expect(readFileSync(seen, 'utf8')).toContain(`content="0; url=${link}"`);
    const file = readFileSync(`${seen}.args`, 'utf8').trim();
    expect(file).toMatch(/^file:\/\/.*console\.html$/);
    expect(existsSync(file.slice('file://'.length))).toBe(false);
  });

  it('prints the link where no browser can be opened', async () => {
    const { status, stdout } = await runCli(
      ['console', '--owner', 'alice', '--url', service.url],
      service.env,
    );
    expect(status).toBe(0);
    expect(stdout).toContain('No browser could be opened here');
    expect(stdout).toMatch(/#token=eyJ/);
  });

  it.each([
    [
      'no service',
      ['--url', 'http://127.0.0.1:9'],
      {},
      1,
      'no service answers at http://127.0.0.1:9/console',
    ],
    ['no address', [], {}, 2, 'PORT is 0'],
    ['an odd address', ['--url', 'ftp://x'], {}, 2, '--url must be'],
    [
      'an issuer',
      ['--url', 'http://127.0.0.1:9'],
      { AUTH_ISSUER: 'https://i.example', AUTH_AUDIENCE: 'p', AUTH_JWKS_URL: 'https://i.example/keys' },
      2,
      'AUTH_ISSUER is set',
    ],
  ])('says what is wrong: %s', async (_, args, settings, exit, words) => {
    const { status, stderr } = await runCli(['console', '--owner', 'a', ...args], {
      ...service.env,
      ...settings,
    });
    expect([status, stderr]).toEqual([exit, expect.stringContaining(words)]);
    expect(stderr.trim()).not.toContain('\n');
  });

  it('says that there is no console where it is off', async () => {
    const without = await TestService.start({ CONSOLE: 'off' });
    const { status, stderr } = await runCli(['console', '--owner', 'a', '--url', without.url], without.env);
    expect([status, stderr]).toEqual([1, expect.stringContaining('CONSOLE is off there')]);
    await without.remove();
  });

  it('is named where a service starts for the first time', () => {
    expect(service.stderr).toContain(`plants console --owner alice --url ${service.url}`);
  });
});

describeInBrowser('plants demo', () => {
  it('has plants and history, raises the alarm at a key press, and leaves nothing behind', async () => {
    const demo = CliProcess.piped(['demo', '--no-open', '--json'], {});
    await demo.says(/"link"/);
    const { link, folder, url } = JSON.parse(demo.stdout.split('\n')[0] ?? '') as Record<string, string>;
    expect(existsSync(join(folder ?? '', 'events.db'))).toBe(true);
    const browser = await TestBrowser.start();
    const page = await browser.page(url ?? '');
    await page.goto(link ?? '');
    await page.getByRole('link', { name: 'Monstera deliciosa' }).waitFor();
    await page.getByRole('link', { name: 'Dracaena trifasciata' }).click();
    await until(async () => (await page.getByRole('listitem').count()) === 3);
    demo.type('a\n');
    await demo.says(/"alarm":"ALARM/);
    expect(demo.stdout).toContain('where it said \\"Monstera deliciosa\\"');
    await browser.finish();
    await browser.close();
    demo.type('q\n');
    expect(await demo.ended()).toBe(0);
    expect(existsSync(folder ?? '')).toBe(false);
  });

  it('stops in order at a signal, too', async () => {
    const demo = CliProcess.piped(['demo', '--no-open'], {});
    await demo.says(/q stops/);
    const [, folder = ''] = /Its data is in (\S+),/.exec(demo.stdout) ?? [];
    demo.signal('SIGTERM');
    expect(await demo.ended()).toBe(0);
    expect(existsSync(folder)).toBe(false);
  });
});

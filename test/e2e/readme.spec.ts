import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { SETTINGS } from '../../src/service/settings.js';
import { served } from '../support/http-client.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/waiting.js';

const readme = readFileSync('README.md', 'utf8');
const settings = readFileSync('docs/settings.md', 'utf8');

/** The commands of the tour and what stands below each. */
const tour = (/```console\n([^]*?)```/.exec(readme)?.[1] ?? '')
  .split(/^\$ /m)
  .slice(1)
  .map((part) => {
    const [command = '', ...printed] = part.trimEnd().split('\n');
    return { command, printed: printed.join('\n') };
  });

describe('the README', () => {
  const { service } = served();

  it('has a tour that prints what it says, pasted line by line', async () => {
    expect(tour.length).toBeGreaterThan(7);
    const mark = '--- next ---';
    // One shell, as a reader's terminal is: its variables live from line to line.
    const script = tour
      .map(({ command }) => `${command}\necho '${mark}'`)
      .join('\n')
      .replaceAll('http://127.0.0.1:3000', service.url)
      .replaceAll('npx plants', `'${process.execPath}' bin/plants.js`);
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { env: service.env });
    const printed = stdout.split(`${mark}\n`).map((text) => text.replaceAll('\r', '').trim());
    expect(printed.slice(0, -1)).toEqual(tour.map((step) => step.printed));
  });

  it('has commands for auditors and operators that succeed, pasted line by line', async () => {
    const blocks = [...readme.matchAll(/```sh\n(npx plants [^]*?)```/g)].map(([, block = '']) => block);
    expect(blocks).toHaveLength(2);
    const folder = temporaryFolder();
    const script = blocks
      .join('')
      .replaceAll('http://127.0.0.1:3000', service.url)
      .replaceAll('npx plants', `'${process.execPath}' '${resolve('bin/plants.js')}'`)
      .replace('--watch', '') // which ends by Ctrl-C
      .replace('FILE', 'events.db');
    await until(async () => (await fetch(`${service.url}/log/checkpoint`)).ok);
    const { stdout } = await promisify(execFile)('bash', ['-ec', script], { env: service.env, cwd: folder });
    expect(stdout).toContain('proven: ');
    expect(stdout).toMatch(/^all is well$/m);
  });

  it('leads to a list of every setting as the program knows it', () => {
    for (const { name, default: value, meaning } of SETTINGS)
      expect(settings).toContain(`| \`${name}\` | ${value === '' ? '' : `\`${value}\``} | ${meaning} |`);
  });
});

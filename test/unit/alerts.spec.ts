import { spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';

/** Prometheus' own tool for rules; a machine without Prometheus hardly has it. */
const PROMTOOL = spawnSync('promtool', ['--version']).status === 0;
if (!PROMTOOL) process.stdout.write('promtool is not on the PATH: the alert rules are not tried with it.\n');

(PROMTOOL ? describe : describe.skip)('docs/alerts.yml, by promtool', () => {
  it.each([
    ['has rules that Prometheus takes', ['check', 'rules', 'docs/alerts.yml']],
    ['alerts as docs/alerts.test.yml says', ['test', 'rules', 'docs/alerts.test.yml']],
  ])('%s', (_what, args) => {
    const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8' });
    expect({ status, stdout, stderr }).toMatchObject({ status: 0 });
  });
});

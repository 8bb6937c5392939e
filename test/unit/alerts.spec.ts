import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';

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

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }[];
}
interface RuleTests {
  readonly tests: readonly {
    readonly alert_rule_test: readonly { readonly alertname: string; readonly exp_alerts: unknown[] }[];
  }[];
}

/** Metrics of the auditor, of witnesses, of erasures, and of the comparison of lists and log. */
const PROOFS = /\bplants_(tree|auditor|witness|erasure|last_verify)_/;

describe('docs/alerts.test.yml', () => {
  it('says of each alert about what is signed, witnessed, erased and compared when it fires and when it does not', () => {
    const { groups } = parse(readFileSync('docs/alerts.yml', 'utf8')) as Rules;
    const { tests } = parse(readFileSync('docs/alerts.test.yml', 'utf8')) as RuleTests;
    const tried = tests.flatMap((test) => test.alert_rule_test);
    const fires = (alert: string): boolean[] => [
      ...new Set(
        tried.filter(({ alertname }) => alertname === alert).map(({ exp_alerts: { length } }) => length > 0),
      ),
    ];
    const alerts = groups
      .flatMap(({ rules }) => rules)
      .filter(({ expr }) => PROOFS.test(expr))
      .map(({ alert }) => alert);
    expect(alerts.length).toBeGreaterThan(10);
    expect(alerts.filter((alert) => fires(alert).length < 2)).toEqual([]);
  });
});

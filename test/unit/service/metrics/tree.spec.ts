import { expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { type AuditorStatus } from '../../../../src/audit/auditor-status.js';
import { showTree } from '../../../../src/service/metrics/tree.js';
import { type Position } from '../../../../src/log/event-log.js';
import { NOON, noon } from '../../../support/domain-stores.js';

const position = '0000000000000070' as Position;
const LIVE: AuditorStatus = {
  ...{ state: 'live', since: NOON, size: 70, position, reason: undefined, alarm: undefined },
  checkpoint: { size: 60, signedAt: '2026-01-31T11:59:58.000Z' },
  recheckedAt: '2026-01-31T11:59:00.000Z',
};

it('tells in figures what the auditor holds, and what is wrong with it', async () => {
  const auditor: { status: AuditorStatus } = { status: LIVE };
  const registry = new Registry();
  showTree(registry, auditor, noon);
  const before = await registry.metrics();
  for (const [name, value] of [
    ['tree_size', 70],
    ['tree_unsigned_events', 10],
    ['tree_checkpoint_age_seconds', 2],
    ['tree_recheck_age_seconds', 60],
    ['tree_alarm', 0],
    ['tree_signing_warnings', 0],
    ['tree_doubtful_times', 0],
  ])
    expect(before).toContain(`\nplants_${name} ${value}\n`);
  auditor.status = {
    ...{ ...LIVE, state: 'alarm', checkpoint: undefined, times: { count: 2, position, message: 'one' } },
    alarm: { kind: 'changed', message: 'event 41 differs', raisedAt: '2026-01-31T12:00:00.000Z' },
    signing: { key: 'k', since: undefined, recorded: undefined, before: undefined, warnings: ['one'] },
  };
  const after = await registry.metrics();
  for (const line of ['tree_alarm 1', 'tree_signing_warnings 1', 'tree_doubtful_times 2'])
    expect(after).toContain(`\nplants_${line}\n`);
  expect(after).toContain('\nplants_auditor_state{state="alarm"} 1\n');
  expect(after).not.toMatch(/^plants_tree_checkpoint_age_seconds /m);
});

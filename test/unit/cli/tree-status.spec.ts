import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { type AuditorStatus } from '../../../src/audit/auditor-status.js';
import { SystemStatus } from '../../../src/operations/system-status.js';
import { showTree } from '../../../src/metrics/tree.js';
import { reportText } from '../../../src/operations/process-report.js';
import { status } from '../../../src/cli/commands/status.js';
import { readStatus } from '../../../src/operations/status.js';
import { type Position } from '../../../src/ports/event-log.js';
import { NOON, noon } from '../../support/domain-stores.js';
import { Office } from './command-for-tests.js';

const live: AuditorStatus = {
  state: 'live',
  since: NOON,
  size: 70,
  position: '0000000000000070' as Position,
  checkpoint: { size: 60, signedAt: '2026-01-31T11:59:58.000Z' },
  recheckedAt: '2026-01-31T11:59:00.000Z',
  reason: undefined,
  alarm: undefined,
};
const alarmed: AuditorStatus = {
  ...live,
  state: 'alarm',
  alarm: {
    kind: 'changed',
    index: 41,
    message: 'event at index 41 is not the one that was signed',
    raisedAt: '2026-01-31T12:00:00.000Z',
  },
};

describe('what is told about the tree', () => {
  let office: Office;
  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  const tell = (one: AuditorStatus): Promise<void> =>
    office.tellText(
      'tree',
      reportText(
        {
          host: 'yew',
          pid: 3,
          roles: ['auditor'],
          version: '1.2.3',
          address: 'http://127.0.0.1:1',
          since: NOON.toISOString(),
        },
        undefined,
        { status: one },
      ),
    );

  it('is how far it is, and what was signed last', async () => {
    await tell(live);
    await status(office.desk());
    expect(office.out).toMatch(
      /^tree +70 events up to 0+70; last checkpoint of 60, 2 s ago; log re-read (60 s|1 min( 0 s)?) ago; yew\/3 is live$/m,
    );
    expect(office.out).not.toMatch(/PROBLEM .*auditor/);
  });

  it('says that the log is being read again, since when, and how far that is', async () => {
    const rechecking = { since: '2026-01-31T11:59:57.000Z', events: 25 };
    await tell({ ...live, recheckedAt: undefined, rechecking });
    const found = await readStatus(office.desk());
    expect(found.processes[0]?.auditor).toMatchObject({ rechecking });
    expect(SystemStatus.safeParse(found).success).toBe(true);
    await status(office.desk());
    expect(office.out).toMatch(
      /^tree .*; log not yet re-read; being re-read for 3 s, 25 events so far; yew\/3 is live$/m,
    );
  });

  it('is a problem where it is alarmed, blocked or disconnected', async () => {
    await tell(alarmed);
    const found = await readStatus(office.desk());
    expect(found.problems[0]).toMatch(/^ALARM of the auditor yew\/3: event at index 41 is not the one/);
    expect(SystemStatus.safeParse(found).success).toBe(true);
    for (const state of ['blocked', 'disconnected'] as const) {
      await tell({ ...live, state, reason: 'at position 7' });
      expect((await readStatus(office.desk())).problems[0]).toMatch(`the auditor yew/3 is ${state}`);
    }
  });

  it('says with which key it signs since when, and what signed before', async () => {
    const signing = { key: 'plants/x+2', since: undefined, recorded: undefined, before: undefined };
    const shown = async (more: object, warnings: readonly string[] = []): Promise<string | undefined> => {
      await tell({ ...live, signing: { ...signing, ...more, warnings } });
      const found = await readStatus(office.desk());
      expect(SystemStatus.safeParse(found).success).toBe(true);
      expect(found.warnings).toEqual(warnings.map((warning) => `the auditor yew/3: ${warning}`));
      await status(office.desk());
      return /^signing +(.*)$/m.exec(office.out.slice(office.out.lastIndexOf('signing')))?.[1];
    };
    expect(await shown({})).toBe('yew/3 signs with plants/x+2 (not yet recorded in the log)');
    const recorded = { since: '2026-01-30', recorded: { size: 60, at: '2026-01-31' } };
    const soFar = 'yew/3 signs with plants/x+2 since 2026-01-30; last recorded 60 events at 2026-01-31';
    expect(await shown(recorded)).toBe(soFar);
    const before = { key: 'plants/x+2', until: '2026-01-29', confirmed: true };
    expect(await shown({ ...recorded, before }, ['it began anew'])).toBe(
      `${soFar}; before that over another tree, until 2026-01-29`,
    );
    for (const [confirmed, text] of [
      [true, 'signed the change, too'],
      [false, 'did not sign the change'],
    ] as const)
      expect(await shown({ ...recorded, before: { ...before, key: 'plants/x+1', confirmed } })).toBe(
        `${soFar}; before that plants/x+1 until 2026-01-29, which ${text}`,
      );
  });

  it('is a warning where it was begun anew', async () => {
    await tell({ ...live, notice: 'there was no tree.db' });
    const found = await readStatus(office.desk());
    expect(found.warnings).toEqual(['the auditor yew/3: there was no tree.db']);
    expect(SystemStatus.safeParse(found).success).toBe(true);
  });

  it('is a warning where times of events contradict checkpoints', async () => {
    const times = {
      count: 1,
      position: '0000000000000007' as Position,
      message: 'the time of event 0 cannot be true',
    };
    for (const [count, more] of [
      [1, ''],
      [3, '; and 2 more like it'],
    ] as const) {
      await tell({ ...live, times: { ...times, count } });
      const found = await readStatus(office.desk());
      expect(found.warnings).toEqual([`the auditor yew/3: the time of event 0 cannot be true${more}`]);
      expect(SystemStatus.safeParse(found).success).toBe(true);
    }
  });

  it('is in the metrics', async () => {
    const auditor: { status: AuditorStatus } = { status: live };
    const registry = new Registry();
    showTree(registry, auditor, noon);
    const before = await registry.metrics();
    expect(before).toMatch(/^plants_tree_size 70\n/m);
    expect(before).toMatch(/^plants_tree_unsigned_events 10\n/m);
    expect(before).toMatch(/^plants_tree_checkpoint_age_seconds 2\n/m);
    expect(before).toMatch(/^plants_tree_recheck_age_seconds 60\n/m);
    expect(before).toMatch(/^plants_tree_alarm 0\n/m);
    expect(before).toMatch(/^plants_tree_signing_warnings 0\n/m);
    expect(before).toMatch(/^plants_tree_doubtful_times 0\n/m);
    const times = { count: 2, position: '0000000000000007' as Position, message: 'one' };
    const signing = { key: 'k', since: undefined, recorded: undefined, before: undefined, warnings: ['one'] };
    auditor.status = { ...alarmed, checkpoint: undefined, signing, times };
    const after = await registry.metrics();
    expect(after).toMatch(/^plants_tree_alarm 1\n/m);
    expect(after).toMatch(/^plants_tree_signing_warnings 1\n/m);
    expect(after).toMatch(/^plants_tree_doubtful_times 2\n/m);
    expect(after).toMatch(/^plants_auditor_state\{state="alarm"\} 1$/m);
    expect(after).not.toMatch(/^plants_tree_checkpoint_age_seconds /m);
  });
});

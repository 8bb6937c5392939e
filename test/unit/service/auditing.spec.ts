import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { AUDIT_STREAM } from '../../../src/domain/stream.js';
import { decorate } from '../../../src/log/decorate.js';
import { type EventLog, LogUnavailable } from '../../../src/log/event-log.js';
import { openTree } from '../../../src/service/auditing.js';
import { loadConfig } from '../../../src/service/config.js';
import { Resources } from '../../../src/service/resources.js';
import { AuditedLog } from '../../support/audited-log.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

describe('the thread of the auditor', () => {
  let audited: AuditedLog;
  let dataDir: string;
  let resources: Resources;
  let logged: string[];
  let told: unknown[];
  beforeEach(async () => {
    audited = await AuditedLog.open();
    [dataDir, resources, logged, told] = [temporaryFolder(), new Resources(), [], []];
  });
  afterEach(async () => {
    await resources.closeAll();
    await audited.remove();
  });

  const logFile = (): string => join(audited.folder, 'events.db');

  /** Starts it with a tree of its own. `log` is what this process appends to, `file` what the thread reads. */
  const started = async (log: EventLog = audited.log, file = logFile()) => {
    const config = loadConfig({ DATA_DIR: dataDir, EVENT_LOG: `sqlite:${file}` });
    const logger = pino({ base: null }, { write: (line: string) => logged.push(line) });
    const tree = await openTree(log, config, logger, resources, { ring: () => told.push(1) });
    if (!tree) throw new Error('no auditor');
    return { ...tree, isLive: () => tree.auditor.status.state === 'live' };
  };

  it('signs what this process appends, and tells how far it is', async () => {
    const { auditor, published } = await started();
    await audited.fill(5);
    await until(() => auditor.status.checkpoint?.size === 5);
    expect(auditor.status).toMatchObject({ state: 'live', size: 5, position: await audited.log.head() });
    expect(await published.checkpoint()).toMatchObject({ size: 5 });
    expect(logged.some((line) => line.includes('auditor is live'))).toBe(true);
  });

  it('has its records appended by this process, and says where that fails', async () => {
    await audited.fill(5);
    await audited.sign();
    await audited.record(); // by another key, so that the next record is due at once
    let works = false;
    const log = decorate(audited.log, {
      append: async (...asked) => {
        if (!works) throw new LogUnavailable('the disk is full');
        return audited.log.append(...asked);
      },
    });
    const failing = await started(log);
    await until(() => failing.auditor.status.signing?.warnings.at(-1)?.endsWith('the disk is full') ?? false);
    await resources.closeAll();
    works = true;
    const { auditor } = await started(log);
    await until(() => auditor.status.signing?.recorded !== undefined);
    expect((await audited.log.readStream(AUDIT_STREAM)).map(({ type }) => type)).toEqual([
      'SigningStarted',
      'SigningStarted',
    ]);
  });

  it('is started again after it has ended, and says why it had', async () => {
    const file = join(dataDir, 'events.db');
    writeFileSync(file, 'no database'.repeat(1_000));
    const { auditor, isLive, store } = await started(audited.log, file);
    await until(() => auditor.status.state === 'disconnected');
    expect(auditor.status.reason).toContain(file);
    expect(logged.filter((line) => line.includes('auditor is disconnected'))).toHaveLength(1);
    await expect(store.lift('somebody', 'for no reason')).rejects.toThrow('has ended');
    rmSync(file);
    symlinkSync(logFile(), file);
    await until(isLive);
  });

  it('raises, lifts and scrubs for this process, and acts by it', async () => {
    const { auditor, isLive, store } = await started();
    await until(isLive);
    const before = told.length;
    const alarm = { kind: 'changed', message: 'seen', raisedAt: '2026-01-01T00:00:00.000Z' } as const;
    await store.raise(alarm);
    await until(() => auditor.status.state === 'alarm');
    expect(auditor.status.alarm).toEqual(alarm);
    expect(told).toHaveLength(before + 1); // its report is sent at once, and not at its next turn
    expect(await store.lift('somebody', 'was looked at')).toEqual(alarm);
    await until(isLive);
    await store.scrub(3);
    expect(await store.scrubbed()).toBe(3);
  });

  it('ends when it is told to, in the middle of a long log', async () => {
    for (let filled = 0; filled < 20_000; filled += 2_000) await audited.fill(2_000);
    const { auditor } = await started();
    await until(() => auditor.status.size > 0);
    await resources.closeAll();
    expect(auditor.status.size).toBeLessThan(20_000);
  });
});

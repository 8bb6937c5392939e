import { pbkdf2 } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { published } from '../../../src/log/sqlite/backup.js';
import { ExportRefused } from '../../../src/audit/bundle-write.js';
import { exportBundle } from '../../../src/cli/commands/export.js';
import { AuditedLog } from '../../support/audited-log.js';
import { keepPrinted } from './command-for-tests.js';

const EVENTS = 20;

describe('an export', () => {
  let log: AuditedLog;
  let folder: string;
  let printed: ReturnType<typeof keepPrinted>;

  beforeEach(async () => {
    log = await AuditedLog.open();
    folder = mkdtempSync(join(log.folder, 'exports'));
    await log.fill(EVENTS);
    printed = keepPrinted();
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await log.remove();
  });

  const exported = (
    name: string,
    { json = false, from, signal }: { json?: boolean; from?: string; signal?: AbortSignal } = {},
  ) =>
    exportBundle(
      { log: log.log, tree: log.tree, signal: signal ?? new AbortController().signal, json, published },
      { file: join(folder, name), from, owner: undefined },
    );

  /** Keeps every thread of Node's pool busy, so that what is opened in one of them is opened late. */
  const busyThreads = (): Promise<unknown> =>
    Promise.all(Array.from({ length: 8 }, () => promisify(pbkdf2)('a', 'b', 100_000, 32, 'sha256')));

  it('that is refused leaves no file behind, also where files are opened slowly', async () => {
    const threads = busyThreads();
    await expect(exported('x')).rejects.toThrow(ExportRefused); // nothing is signed yet
    await threads;
    await busyThreads(); // whatever was to be opened is open now
    expect(readdirSync(folder)).toEqual([]);
  });

  it('that is interrupted leaves no file behind, and says why it has ended', async () => {
    await log.sign();
    const signal = AbortSignal.abort(new Error('interrupted: nothing was exported'));
    await expect(exported('x', { signal })).rejects.toThrow('interrupted: nothing was exported');
    expect(readdirSync(folder)).toEqual([]);
  });

  it('is compressed as its name says, and told of in words or as JSON', async () => {
    await log.sign();
    await exported('plain');
    expect(printed.stdout).toMatch(
      /^exported 20 events in .* to .*plain: verified against the checkpoint of 20 events/m,
    );
    printed.stdout = '';
    await exported('small.gz', { json: true, from: '5' });
    expect(JSON.parse(printed.stdout)).toMatchObject({ size: EVENTS, from: 5, events: 15, alarm: null });
    const small = gunzipSync(readFileSync(join(folder, 'small.gz'))).toString();
    expect(small.match(/^\{"event":/gm)).toHaveLength(15);
  });

  it('tells first of an alarm that stands', async () => {
    await log.sign();
    const message = 'event 3 is not what it was';
    await log.tree.raise({ kind: 'changed', index: 3, message, raisedAt: '2026-01-31T12:00:00.000Z' });
    await exported('x', { json: true });
    expect(printed.stderr + printed.stdout).toMatch(
      /^plants: an alarm of the auditor stands.*: event 3 is not what it was\n\{/,
    );
  });
});

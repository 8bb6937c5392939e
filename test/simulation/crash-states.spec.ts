import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  CrashStates,
  type Opened,
  readRecording,
  record,
  type Recording,
  scratchFolder,
} from './crash-states.js';
import { Disk } from './disk.js';
import { whyNoStrace } from './strace.js';

/** `npm run test:all -- --lane crash-states` sets more. */
const states = Number(process.env.CRASH_STATES ?? 120);
/** Events in each part of the recorded run: more of them take more steps, and checkpoints of a log under load. */
const events = Number(process.env.CRASH_EVENTS ?? (states > 1_000 ? 300 : 16));
const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
/** Added to each sync: on a slow disk, by odd seeds, the log is synced in libuv's pool. */
const syncMs = seed % 2 === 1 ? 3 : 0;
/** A recording that was kept, to open its states again. */
const kept = process.env.CRASH_RECORDING;

/** In each so many of the states around the erasure a service goes on until it is over: that takes a second. */
const GOES_ON_EVERY = 8;

const noStrace = kept === undefined ? whyNoStrace() : undefined;
if (noStrace !== undefined) process.stdout.write(`CRASH STATES ARE NOT TESTED: ${noStrace}\n`);
const itTraces = noStrace === undefined ? it : it.skip;

let recording: Recording;
let folder: string | undefined;
let isGood = true;
beforeAll(async () => {
  if (noStrace !== undefined) return;
  folder = kept === undefined ? join(scratchFolder(), 'recording') : undefined;
  recording = folder === undefined ? await readRecording(kept ?? '') : await record(folder, events, syncMs);
});
afterAll(() => {
  if (folder === undefined) return;
  if (isGood) rmSync(join(folder, '..'), { recursive: true });
  else process.stdout.write(`the recording was kept: CRASH_RECORDING=${folder} CRASH_SEED=${seed}\n`);
});

const expectNoneBroken = ({ broken, states: opened }: Opened): void => {
  isGood &&= broken.length === 0;
  if (process.env.CRASH_STATES !== undefined)
    process.stdout.write(`seed ${seed}, ${recording.steps.length} steps: ${JSON.stringify(opened)}\n`);
  expect({ seed, count: broken.length, first: broken.slice(0, 5) }).toEqual({ seed, count: 0, first: [] });
};

itTraces(
  'a power cut at any moment loses nothing that was acknowledged, and leaves files that the service opens',
  async () => {
    const opened = await new CrashStates(recording, seed).open(states, Infinity);
    expectNoneBroken(opened);
    expect(Object.values(opened.states).reduce((sum, one) => sum + one)).toBeGreaterThan(states / 2);
  },
  60_000 + 2_000 * states,
);

itTraces('no page is moved while a power cut could take the name of its write-ahead log', () => {
  const disk = new Disk();
  const moved = new Set<string>();
  for (const step of recording.steps) {
    if (step.kind === 'write' && disk.mayLose(`${step.path}-wal`)) moved.add(step.path);
    disk.apply(step);
  }
  expect([...moved]).toEqual([]);
});

itTraces(
  'an erasure that a power cut interrupts is brought to its end, and leaves nothing of the owner',
  async () => {
    const crashes = new CrashStates(recording, seed);
    expectNoneBroken(await crashes.open(states / 4, GOES_ON_EVERY, crashes.erasure));
  },
  60_000 + 2_000 * states,
);

/** Disks that lie about a sync, and what is found then. */
const LIES: readonly (readonly [string, RegExp, RegExp])[] = [
  ['the event log', /^data\/events\.db(-wal)?$/, /acknowledged|no event log|is empty|cannot be opened/],
  ['the tree', /^data\/tree\.db(-wal)?$/, /that was served is lost/],
  ['the keys', /^data\/(signing-key|audit-key)/, /(signing-key\.json|audit-key\.pem) is /],
  ['the names in a folder', /^(data|away|\.)$/, /lost|no event log|cannot be opened/],
  ['a backup', /^away\/backup/, /backup/],
];

itTraces.each(LIES)('would be found broken where the disk lied about syncs of %s', async (_, path, fault) => {
  const liar = new CrashStates(recording, seed, (synced) => path.test(synced));
  const faults = await liar.openOne(
    { steps: recording.steps.length, leaving: path.test('data') ? 'contents' : 'names', seed },
    false,
  );
  expect(faults.join('\n')).toMatch(fault);
});

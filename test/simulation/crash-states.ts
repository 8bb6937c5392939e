import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CrashStateCheck, NOTHING_PROMISED, type Promised, promisedBy } from './crash-state-check.js';
import { Disk, type Files, type Leaving, LEAVINGS } from './disk.js';
import { Random } from './random.js';
import { MARKS, type RunReport, type Step } from './recording.js';
import { placed, type Reference, referenceOf } from './reference.js';
import { Interrupted, stepsOf, traced } from './strace.js';

/** The size of the index of a write-ahead log, in bytes: what it holds after a power cut is anything. */
const INDEX_BYTES = 32_768;

/** States that are opened at a time. */
const AT_ONCE = 3;

/** States between two progress lines of the long form. */
const TOLD_EVERY = 500;

/** More steps than an erasure takes in a small run. */
const ERASURE_STEPS = 600;

/** Runs that are recorded until one can be read. */
const ATTEMPTS = 5;

const RUN = fileURLToPath(new URL('./recorded-run.js', import.meta.url));

export interface Recording {
  readonly steps: readonly Step[];
  readonly report: RunReport;
  readonly reference: Reference;
}

/** A state in which something is wrong. */
export interface BrokenState {
  /** The number of steps before the power cut, what was left, and the seed of what chance decided. */
  readonly steps: number;
  readonly leaving: Leaving;
  readonly seed: number;
  readonly faults: readonly string[];
}

export interface Opened {
  /** Different states that were opened, by what was left. */
  readonly states: Record<Leaving, number>;
  readonly broken: readonly BrokenState[];
}

/** A folder in memory where there is one: what is opened there need not be durable. */
export const scratchFolder = (): string =>
  mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'plants-crash-'));

/** Records a run of the service into a new folder, and reads it. Throws where the run fails. */
export const record = async (folder: string, events: number, syncMs: number): Promise<Recording> => {
  for (let attempt = 1; ; attempt += 1) {
    mkdirSync(folder);
    try {
      await recordOnce(folder, events, syncMs);
      return await readRecording(folder);
    } catch (error) {
      if (!(error instanceof Interrupted) || attempt === ATTEMPTS) throw error;
      rmSync(folder, { recursive: true });
    }
  }
};

const recordOnce = async (folder: string, events: number, syncMs: number): Promise<void> => {
  const run = join(folder, 'run');
  mkdirSync(run);
  const command = [process.execPath, '--no-warnings', RUN, run, join(folder, 'report'), String(events)];
  // libuv may write by io_uring, which no trace shows.
  const env = { PATH: process.env.PATH ?? '', UV_USE_IO_URING: '0' };
  await traced(join(folder, 'trace'), command, env, syncMs);
};

/** Reads what was recorded. Throws where the steps do not come to the files that the run has left. */
export const readRecording = async (folder: string): Promise<Recording> => {
  const run = join(folder, 'run');
  const steps = await stepsOf(join(folder, 'trace'), run);
  const report = JSON.parse(readFileSync(join(folder, 'report'), 'utf8')) as RunReport;
  const disk = new Disk();
  for (const step of steps) disk.apply(step);
  for (const [path, content] of disk.afterPowerCut('all', new Random(0)))
    if (content !== 'folder' && !path.endsWith('-shm') && !content.equals(readFileSync(join(run, path))))
      throw new Error(`${path} is not what the trace says: a call is missing in it`);
  return { steps, report, reference: await referenceOf(steps, folder) };
};

/** Opens states of a recording, the same ones for the same seed. */
export class CrashStates {
  readonly #known = new Set<string>();
  readonly #states = Object.fromEntries(LEAVINGS.map((leaving) => [leaving, 0])) as Record<Leaving, number>;
  readonly #broken: BrokenState[] = [];

  /** `lies`: syncs of these paths do nothing. */
  constructor(
    private readonly recording: Recording,
    private readonly seed: number,
    private readonly lies: (path: string) => boolean = () => false,
  ) {}

  /**
   * Opens about `count` different states, spread over the steps of `among`. In each `goesOnEvery`th a service goes on
   * until all that was begun is over.
   */
  async open(count: number, goesOnEvery: number, among = { from: 0, to: Infinity }): Promise<Opened> {
    const { steps } = this.recording;
    const [from, to] = [among.from, Math.min(among.to, steps.length)];
    const random = new Random(this.seed);
    const cuts = Array.from({ length: count }, () => ({
      at: from + random.below(to - from) + 1,
      leaving: random.chance(0.5) ? ('some' as const) : random.pick(LEAVINGS),
      seed: random.below(2 ** 31),
    })).sort((one, other) => one.at - other.at);
    const disk = new Disk(this.lies);
    let promised = NOTHING_PROMISED;
    let done = 0;
    const opening = new Set<Promise<void>>();
    for (const { at, leaving, seed } of cuts) {
      for (const step of steps.slice(done, at)) {
        disk.apply(step);
        promised = this.#promisedAfter(promised, step);
      }
      done = at;
      const files = disk.afterPowerCut(leaving, new Random(seed));
      if (!this.#isNew(files, promised)) continue;
      this.#states[leaving] += 1;
      if (this.#known.size % TOLD_EVERY === 0) process.stdout.write(`${this.#known.size} states\n`);
      const goesOn = this.#known.size % goesOnEvery === 0;
      const one = this.#open(files, promised, goesOn).then((faults) => {
        if (faults.length > 0) this.#broken.push({ steps: at, leaving, seed, faults });
        opening.delete(one);
      });
      opening.add(one);
      if (opening.size >= AT_ONCE) await Promise.race(opening);
    }
    await Promise.all(opening);
    return { states: this.#states, broken: this.#broken };
  }

  /** From a second of commits before the erasure to its end. */
  get erasure(): { readonly from: number; readonly to: number } {
    const { steps, report } = this.recording;
    const isErasedBy = (step: Step): boolean =>
      step.kind === 'answer' && report.seen[step.id]?.kind === 'erased';
    const to = steps.findIndex(isErasedBy) + 1;
    return { from: Math.max(0, to - ERASURE_STEPS), to };
  }

  /** Opens the state after a cut that was reported. */
  async openOne({ steps: at, leaving, seed }: Omit<BrokenState, 'faults'>, goesOn: boolean) {
    const disk = new Disk(this.lies);
    let promised = NOTHING_PROMISED;
    for (const step of this.recording.steps.slice(0, at)) {
      disk.apply(step);
      promised = this.#promisedAfter(promised, step);
    }
    return this.#open(disk.afterPowerCut(leaving, new Random(seed)), promised, goesOn);
  }

  #promisedAfter(promised: Promised, step: Step): Promised {
    const ids =
      step.kind === 'answer'
        ? [step.id]
        : step.kind === 'write' && step.path === MARKS
          ? step.bytes.toString().split('\n')
          : [];
    const { seen } = this.recording.report;
    return ids.reduce((before, id) => (seen[id] ? promisedBy(before, seen[id]) : before), promised);
  }

  #isNew(files: Files, promised: Promised): boolean {
    const hash = createHash('sha256').update(JSON.stringify(promised));
    for (const [path, content] of files)
      if (!path.endsWith('-shm')) hash.update(`${path}\n`).update(content).update('\n');
    const digest = hash.digest('hex');
    if (this.#known.has(digest)) return false;
    this.#known.add(digest);
    return true;
  }

  async #open(files: Files, promised: Promised, goesOn: boolean): Promise<readonly string[]> {
    const random = new Random(files.size);
    const left = new Map(files);
    for (const path of files.keys())
      if (path.endsWith('-shm')) left.set(path, Buffer.alloc(INDEX_BYTES, random.below(256)));
    const parent = scratchFolder();
    const folder = placed(left, parent);
    const faults = await new CrashStateCheck(folder, this.recording.reference, promised, goesOn).run();
    rmSync(parent, { recursive: true });
    return faults;
  }
}

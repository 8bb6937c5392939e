import assert from 'node:assert/strict';
import { cpSync, createReadStream, createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { toPosition } from '../../../src/log/sqlite/log-reading.js';
import { BundleRefused } from '../../../src/transparency/bundle-format.js';
import { checkBundle } from '../../../src/audit/check.js';
import { bundleOf } from '../../../src/audit/bundle-write.js';
import { type VerifierKey } from '../../../src/transparency/note.js';
import { Alterer } from './alterer.js';
import { type Expected, randomOf, type State } from './kind.js';
import { AT_NEXT_START, NOT_FOUND, ONLY_WARNED } from './kinds.js';
import { makeModel, type Model, openModel } from './model.js';
import { ServiceWatcher } from './service-watcher.js';
import { AuditorWatcher, type Finding, type Watcher } from './watcher.js';
import { temporaryFolder } from '../temporary-folder.js';

export interface Outcome {
  readonly way: string;
  readonly state: State;
  /** Undefined where the files alone do not show it. */
  readonly finding: Finding | undefined;
  /** Found by the next start only, although the service ran on and read the log again. */
  readonly atNextStart: boolean;
  readonly isNamed: boolean;
  /** From the alteration, or from the start on the altered files, in milliseconds. */
  readonly ms: number;
  /** For alterations that were not found: a bundle contradicts the checkpoint that was kept elsewhere, or extends it. */
  readonly kept: 'contradicted' | 'extended' | undefined;
}

export interface MatrixOptions {
  readonly events: number;
  readonly seed: number;
  /** Between two readings of the log, in milliseconds. */
  readonly recheckMs: number;
}

/**
 * Alters copies of a signed DATA_DIR, and looks who finds it: the auditor of a process that runs on it, that was stopped
 * and started again, or that is started on the altered files.
 */
export class Matrix {
  readonly #random;
  readonly #alterer = new Alterer();
  #nth = 0;

  private constructor(
    private readonly folder: string,
    private readonly model: Model,
    private readonly options: MatrixOptions,
    private readonly kept: { readonly note: string; readonly key: VerifierKey },
  ) {
    this.#random = randomOf(options.seed);
  }

  static async of(options: MatrixOptions): Promise<Matrix> {
    const folder = temporaryFolder();
    const model = await makeModel(folder, options.events);
    const opened = await openModel(model.folder);
    const note = (await opened.store.latestCheckpoint())?.note ?? '';
    await opened.close();
    return new Matrix(folder, model, options, { note, key: opened.key });
  }

  /** Makes one alteration, looks for it, and removes it. `service`: by the real service in a process of its own. */
  async one(way: string, state: State, service: boolean): Promise<Outcome> {
    const folder = join(this.folder, `${this.#nth++}`);
    cpSync(this.model.folder, folder, { recursive: true });
    const start = (): Promise<Watcher | Finding> =>
      service ? ServiceWatcher.start(folder) : AuditorWatcher.start(folder, this.options.recheckMs);
    let running: Watcher | undefined;
    try {
      if (state !== 'started') {
        running = watcherOf(await start());
        assert.equal(await running.ready(), undefined, 'nothing is wrong with the model');
      }
      if (state === 'restarted') {
        await running?.stop();
        running = undefined;
      }
      const seed = this.#random(2 ** 32);
      const altered = (): Promise<Expected> => this.#alterer.alter({ way, folder, model: this.model, seed });
      const expected = await altered();
      const began = performance.now();
      let finding = await running?.find(2);
      const atNextStart = running !== undefined && finding === undefined;
      if (atNextStart) {
        await running?.stop();
        running = undefined;
      }
      if (!running) {
        const started = await start();
        if ('by' in started) finding = started;
        else {
          running = started;
          finding = await running.find(2);
        }
      }
      const ms = performance.now() - began;
      await running?.stop();
      running = undefined;
      const kept = finding && way !== ONLY_WARNED ? undefined : await this.#isKept(folder);
      const isNamed = finding !== undefined && names(finding, expected);
      return { way, state, finding, atNextStart, isNamed, ms, kept };
    } finally {
      await running?.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async remove(): Promise<void> {
    await this.#alterer.end();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Compares a bundle of what was signed since with a checkpoint that was kept. */
  async #isKept(folder: string): Promise<'contradicted' | 'extended'> {
    const opened = await openModel(folder);
    const { log, store } = opened;
    const file = join(folder, 'bundle.ndjson');
    try {
      const from = String(Math.min(this.model.events, (await store.latestCheckpoint())?.size ?? 0));
      const bundle = bundleOf(
        log,
        store,
        { from, owner: undefined },
        () => undefined,
        new AbortController().signal,
      );
      await pipeline(Readable.from(bundle, { objectMode: false }), createWriteStream(file));
      const { note, key } = this.kept;
      await checkBundle(
        {
          bundle: () => createReadStream(file),
          trust: { keys: [key], witnesses: [] },
          against: Buffer.from(note),
          previous: undefined,
        },
        () => undefined,
      );
      return 'extended';
    } catch (error) {
      if (error instanceof BundleRefused) return 'contradicted';
      throw error;
    } finally {
      await opened.close();
    }
  }
}

const watcherOf = (started: Watcher | Finding): Watcher => {
  if ('by' in started) throw new Error(started.message);
  return started;
};

/** True if the finding names the event, or the file, that was altered. */
const names = ({ message, index, position }: Finding, { indices, says }: Expected): boolean =>
  (indices ?? []).some((one) => one === index || (index === undefined && toPosition(one + 1) === position)) ||
  (says !== undefined && new RegExp(says).test(message));

/** Says what is wrong with an outcome: not found, or too late, where that is not known; or a wrong name. */
export const faultOf = ({ way, state, finding, atNextStart, isNamed, kept }: Outcome): string | undefined => {
  const what = `${way}, ${state}: `;
  if (!finding)
    return NOT_FOUND[way] === kept
      ? undefined
      : `${what}nobody found it, and a kept checkpoint is ${String(kept)}`;
  if (!isNamed) return `${what}it is not named: ${finding.message}`;
  if (atNextStart && !AT_NEXT_START.includes(way))
    return `${what}found at the next start only: ${finding.message}`;
  if (way === ONLY_WARNED && kept !== 'contradicted') return `${what}a kept checkpoint is ${String(kept)}`;
  return undefined;
};

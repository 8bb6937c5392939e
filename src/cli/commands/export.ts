import { open } from 'node:fs/promises';
import { Readable, type Transform, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as zlib from 'node:zlib';
import { type Command, Option } from 'commander';
import { type BundleQuestion, type Bundled, ExportRefused, bundleOf } from '../../audit/bundle-write.js';
import { longOperation } from '../../operations/long-operation.js';
import { type EventLog } from '../../log/event-log.js';
import { type TreeStore } from '../../audit/tree-store.js';
import { nonEmptyText } from '../arguments.js';
import { EXITS } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { watched } from '../progress.js';
import { settings } from '../settings.js';
import { StartError } from '../../service/start-error.js';
import { duration, printable, quantity, stopwatch } from '../terminal.js';
import { treeFile, withLog, withTreeOf } from '../with-stores.js';

/** Defines `plants export`. */
export const define = (command: Command): void => {
  command
    .requiredOption(
      '--out <file>',
      'the new file, compressed if it ends in .gz or .zst; - for standard output',
    )
    .option(
      '--from <index>',
      'the first event: the number of events before it (size of an older checkpoint), or its position',
      nonEmptyText,
    )
    .addOption(
      new Option('--owner <name>', "only events of this owner's plants and requests")
        .argParser(nonEmptyText)
        .conflicts('altered'),
    )
    .option(
      '--altered',
      'the log as it is now, although it is not what was signed: for plants check --previous',
    )
    .option('--json', 'print {file, origin, size, from, events, seconds, alarm}, and no progress')
    .addHelpText(
      'after',
      `
The file holds the events up to the last signed checkpoint. The command runs while the service does. Nothing is
overwritten. plants check, and docs/check.py, check it without the store; docs/audit.md says what that proves.

Example:
  npx plants export --out events.ndjson.gz
${EXITS}`,
    )
    .action(exportEvents);
};

interface ExportOptions {
  readonly out: string;
  readonly from?: string;
  readonly owner?: string;
  readonly altered?: true;
  readonly json?: boolean;
}

const exportEvents = ({ out: file, from, owner, altered, json = false }: ExportOptions) => {
  const signal = stopSignal('interrupted: nothing was exported');
  const { dataDir } = settings();
  return withLog((log) =>
    withTreeOf(log, dataDir, async (tree) => {
      if (!tree)
        throw new StartError(
          `there is no tree ${treeFile(dataDir)}: run a service with the role auditor first, and give this command its DATA_DIR`,
        );
      const { published } = await import('../../log/sqlite/backup.js');
      await exportBundle(
        { log, tree, signal, json, published },
        { file, from, owner, altered: altered ?? false },
      );
    }),
  );
};

/** The log, the tree and the files that an export uses. */
export interface ExportContext {
  readonly log: EventLog;
  readonly tree: TreeStore;
  readonly signal: AbortSignal;
  /** Print one JSON object, and no progress. */
  readonly json: boolean;
  /** Makes a file under a temporary name, and renames it once it is complete. Overwrites nothing. */
  readonly published: (file: string, make: (partial: string) => Promise<Bundled>) => Promise<Bundled>;
}

/** Standard output, as a file's name. */
const STDOUT = '-';

/**
 * Writes a bundle into a new file, compressed as its name says, or to standard output for `-`, and prints what it
 * holds: on standard error, where the bundle itself goes to standard output. An alarm of the auditor is
 * printed first; where the stored tree was altered, nothing is exported. Throws as bundleOf and `published` do, and ExportRefused.
 */
export const exportBundle = async (
  { log, tree, signal, json, published }: ExportContext,
  { file, ...question }: BundleQuestion & { readonly file: string },
): Promise<void> => {
  const compressor = compressorFor(file); // before the work
  const alarm = await tree.alarm();
  if (alarm?.kind === 'tree' && !question.altered)
    throw new ExportRefused(
      `an alarm of the auditor stands, and nothing can be verified against its tree until it is resolved: ${alarm.message}`,
    );
  if (alarm)
    process.stderr.write(
      printable(
        `plants: an alarm of the auditor stands${question.altered ? '' : ', and what is exported is what it signed before'}: ${alarm.message}`,
      ) + '\n',
    );
  const time = stopwatch();
  const exporting = longOperation(signal, (report, ended) => {
    const onProgress = (done: number, total: number): void => {
      report({ phase: 'exporting', unit: 'events', done, total });
    };
    const write = (target: Writable): Promise<Bundled> =>
      written(
        bundleOf(log, tree, question, onProgress, ended),
        [...(compressor ? [compressor()] : []), target],
        ended,
      );
    if (file === STDOUT) return write(process.stdout);
    return published(file, async (partial) => {
      // Opened first: a stream that opens the file itself may do so after a failure, once the file was removed.
      const handle = await open(partial, 'r+');
      return await write(handle.createWriteStream({ flush: true })); // the pipeline waits until it is closed
    });
  });
  const bundled = await watched({ json }, exporting);
  const seconds = time();
  const { origin, size, from, events } = bundled;
  const text =
    `exported ${quantity(events, 'event')} in ${duration(seconds)}${file === STDOUT ? '' : ` to ${file}`}: ` +
    (question.altered
      ? `as the log holds them now, NOT verified against the checkpoint of ${quantity(size, 'event')} of ${origin}`
      : `verified against the checkpoint of ${quantity(size, 'event')} of ${origin}`);
  const verified = !question.altered;
  const found = { file, origin, size, from, events, seconds, verified, alarm: alarm?.message ?? null };
  const told = json ? JSON.stringify(found) : text;
  (file === STDOUT ? process.stderr : process.stdout).write(`${told}\n`);
};

/** Writes a bundle to its end through streams, the last of which is left open where it is standard output. */
const written = async (
  bundle: AsyncGenerator<string, Bundled>,
  streams: readonly Writable[],
  signal: AbortSignal,
): Promise<Bundled> => {
  let bundled: Bundled | undefined;
  const bundling = async function* () {
    bundled = yield* bundle;
  };
  const text = Readable.from(bundling(), { objectMode: false });
  try {
    await pipeline([text, ...streams], { signal, end: streams.at(-1) !== process.stdout });
  } catch (error) {
    signal.throwIfAborted(); // its reason names the signal
    throw error;
  }
  if (!bundled) throw new ExportRefused('the bundle is incomplete: export it again');
  return bundled;
};

/** The compression of a file of this name; undefined for none. Throws ExportRefused where this Node cannot. */
const compressorFor = (file: string): (() => Transform) | undefined => {
  if (file.endsWith('.gz')) return () => zlib.createGzip();
  if (!file.endsWith('.zst')) return undefined;
  const { createZstdCompress } = zlib as { createZstdCompress?: () => Transform };
  if (createZstdCompress) return () => createZstdCompress();
  throw new ExportRefused(
    `${file}: Node ${process.versions.node} has no zstd, 22.15 has: name it .gz, or export to - and pipe that into zstd`,
  );
};

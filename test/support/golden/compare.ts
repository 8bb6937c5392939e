import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { copyOfStores, GOLDEN, goldenZipped, meta, writeZipped } from './files.js';
import {
  type GoldenAnswer,
  type GoldenOutput,
  record,
  runCommand,
  Stable,
  startService,
  tokensOf,
} from './recording.js';
import { reads, refusals, writes } from './requests.js';

/** The commands of the recording, on copies of the golden stores without a running service. */
const commands = (data: string): string[][] => [
  ...[
    [],
    ...['serve', 'token', 'copy', 'status', 'rebuild', 'rollback', 'verify', 'skip', 'backup', 'restore'],
    ...[
      'history',
      'export',
      'check',
      'audit-key',
      'audit-lift',
      'witness',
      'monitor',
      'completion',
      'console',
      'demo',
    ],
  ].map((command) => [command, '--help'].flat()),
  ['nonsense'],
  ['nonsense', '--json'],
  ['status', '--nonsense'],
  ['token', '--json'],
  ['token', '--owner', 'alice', '--expires', 'never', '--json'],
  ['verify', '--json'],
  ['rebuild', '--dry-run', '--json'],
  ['rebuild', '--cancel', '--json'],
  ['rebuild', '--rate', '0', '--json'],
  ['rollback', '--json'],
  ['skip', '--position', '1', '--reason', 'a', '--yes', '--json'],
  ['history', '--json'],
  ['history', '--owner', 'bob', '--plant', '3'],
  ['history', '--owner', 'bob', '--as-of', meta().positions[1]],
  ['history', '--plant', '3', '--json'],
  ['audit-key', '--json'],
  ['audit-lift', '--reason', 'a', '--json'],
  ['export', '--out', join(data, 'bundle.ndjson'), '--json'],
  ['export', '--out', join(data, 'bundle-bob.ndjson'), '--owner', 'bob', '--json'],
  ['check', join(data, 'bundle.ndjson'), '--key', join(GOLDEN, 'plants.vkey'), '--json'],
  ['check', join(data, 'bundle-bob.ndjson'), '--key', join(GOLDEN, 'plants.vkey'), '--json'],
  ['check', join(data, 'nothing'), '--json'],
  ['backup', '--to', join(data, 'backup.db'), '--json'],
  ['restore', '--from', join(data, 'backup.db'), '--json'],
];

export interface Recording {
  readonly answers: readonly GoldenAnswer[];
  readonly outputs: readonly GoldenOutput[];
  /** Bundles that were exported from the golden stores, by name. */
  readonly bundles: Readonly<Record<string, Buffer>>;
}

/** Sends the requests to, and runs the commands of, a `bin/plants.js` on copies of the golden stores. */
export const recordAll = async (bin: string): Promise<Recording> => {
  const { madeAt, positions } = meta();
  const known = goldenZipped('bundle.ndjson').toString();
  const { version } = JSON.parse(readFileSync(join(GOLDEN, '../../package.json'), 'utf8')) as {
    version: string;
  };
  const [data, commandData, refusing] = [copyOfStores(), copyOfStores(), copyOfStores()];
  try {
    // Its lists are made again from the log, which a command or a service without a projector does not do.
    for (const folder of [commandData, refusing])
      await (await startService(bin, { DATA_DIR: folder, GOLDEN_NOW: madeAt })).stop();
    const answers: GoldenAnswer[] = [];
    for (const [requests, settings] of [
      [() => reads(positions), { DATA_DIR: data, GOLDEN_NOW: madeAt }],
      [writes, { DATA_DIR: data, GOLDEN_NOW: madeAt }],
      [refusals, { DATA_DIR: refusing, GOLDEN_NOW: madeAt }],
    ] as const) {
      const service = await startService(bin, settings);
      const stable = new Stable(madeAt, known, { [service.url]: '<url>' });
      answers.push(...(await record(service.url, requests(answers), await tokensOf(settings), stable)));
      await service.stop();
    }
    const stable = new Stable(madeAt, known, {
      [commandData]: '<data>',
      [GOLDEN]: '<golden>/',
      [version]: '<version>',
    });
    const outputs: GoldenOutput[] = [];
    for (const command of commands(commandData)) {
      const { status, stdout, stderr } = await runCommand(bin, command, {
        DATA_DIR: commandData,
        GOLDEN_NOW: madeAt,
      });
      outputs.push({
        command: stable.text(command.join(' ')),
        status,
        stdout: stable.text(stdout),
        stderr: stable.text(stderr),
      });
    }
    const bundles = Object.fromEntries(
      ['bundle.ndjson', 'bundle-bob.ndjson'].map((name) => [name, readFileSync(join(commandData, name))]),
    );
    return { answers, outputs, bundles };
  } finally {
    for (const folder of [data, commandData, refusing]) rmSync(folder, { recursive: true, force: true });
  }
};

/** One line of JSON for each. */
const lines = (values: readonly unknown[]): string =>
  values.map((value) => `${JSON.stringify(value)}\n`).join('');

/** Writes answers and outputs as golden files. */
export const writeRecording = async (bin: string): Promise<void> => {
  const { answers, outputs } = await recordAll(bin);
  writeZipped('answers.ndjson', lines(answers));
  writeFileSync(join(GOLDEN, 'outputs.ndjson'), lines(outputs));
  process.stdout.write(`${answers.length} answers, ${outputs.length} outputs\n`);
};

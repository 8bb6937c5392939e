import { readdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Registry } from 'prom-client';
import { BoundedLook } from './bounded-look.js';
import { showLabelledGauge } from './gauge.js';

/** The files of a process. A store on a server has none. */
export interface DiskPlaces {
  readonly dataDir: string;
  /** The database file of an embedded event log. */
  readonly eventLog: string | undefined;
  /** The folder of an embedded read model. */
  readonly readModel: string | undefined;
}

interface FileSystemSpace {
  /** The label `part`. */
  readonly part: string;
  /** Bytes that an ordinary user may still write. */
  readonly free: number;
  /** In bytes. */
  readonly size: number;
}

interface DiskUse {
  readonly spaces: readonly FileSystemSpace[];
  /** Size of each write-ahead log in bytes, 0 where the file does not exist. */
  readonly logs: readonly { readonly store: string; readonly bytes: number }[];
}

/** Adds the free space where a process writes, and the size of the write-ahead logs of its SQLite stores. */
export const showDisk = (registry: Registry, places: DiskPlaces): void => {
  const look = new BoundedLook(() => diskUse(places));
  showLabelledGauge(
    registry,
    'plants_disk_free_bytes',
    'Bytes that may still be written to the file system of a part; absent where it does not answer.',
    'part',
    async () => ((await look.result())?.spaces ?? []).map((one) => [one.part, one.free] as const),
  );
  showLabelledGauge(registry, 'plants_disk_size_bytes', 'The size of that file system.', 'part', async () =>
    ((await look.result())?.spaces ?? []).map((one) => [one.part, one.size] as const),
  );
  showLabelledGauge(
    registry,
    'plants_wal_bytes',
    "The size of the write-ahead log beside a SQLite store's file.",
    'store',
    async () => ((await look.result())?.logs ?? []).map((one) => [one.store, one.bytes] as const),
  );
};

/** One call after the other: a file system that hangs takes one of libuv's four threads. */
const diskUse = async ({ dataDir, eventLog, readModel }: DiskPlaces): Promise<DiskUse> => {
  const spaces: FileSystemSpace[] = [];
  const logs: { store: string; bytes: number }[] = [];
  const add = async (part: string, folder: string): Promise<void> => {
    const { bavail, blocks, bsize } = await statfs(folder);
    spaces.push({ part, free: bavail * bsize, size: blocks * bsize });
  };
  await ifThere(() => add('data_dir', dataDir)); // a process without any file of its own may have no such folder
  const bytesOf = async (file: string): Promise<number> => (await ifThere(() => stat(file)))?.size ?? 0;
  if (eventLog !== undefined) {
    await ifThere(() => add('event_log', dirname(eventLog)));
    logs.push({ store: 'event_log', bytes: await bytesOf(`${eventLog}-wal`) });
  }
  if (readModel !== undefined) {
    await ifThere(() => add('read_model', readModel));
    let bytes = 0;
    for (const name of (await ifThere(() => readdir(readModel))) ?? [])
      if (name.endsWith('-wal')) bytes += await bytesOf(join(readModel, name));
    logs.push({ store: 'read_model', bytes });
  }
  return { spaces, logs };
};

/** Undefined where the file or folder does not exist. Throws every other error. */
const ifThere = async <Result>(read: () => Promise<Result>): Promise<Result | undefined> => {
  try {
    return await read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
};

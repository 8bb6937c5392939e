import { createHash } from 'node:crypto';
import { decodeOwner, encodeOwner } from '../../domain/stream.js';
import { type Generation, PARTITIONS, partitionOf } from '../read-model.js';

/** Slots of a Redis Cluster. */
export const SLOTS = 16_384;

/**
 * The keys of one log's read model, see docs/redis-keys.md. A cluster keeps the keys of a partition's hash tag on one
 * server, where one script can use them.
 */
export class Keys {
  /** Distinguishes logs on one server; short, since it is in each owner's key. */
  readonly log: string;
  /** Hash: the registry of generations, see scripts.ts. */
  readonly generations: string;
  /** The registry of versions before 1.0: their generations are swept away. */
  readonly olderGenerations: string;
  /** String: the holder of the projector's lease. */
  readonly lease: string;
  /** Hash: the reports of processes, see scripts.ts. */
  readonly reports: string;
  /** Channel for notifications of changed positions. */
  readonly channel: string;
  /** A key to try commands on. */
  readonly probe: string;
  /** Matches the keys of all generations. */
  readonly allGenerations: string;
  /** The slot of the keys that belong to no partition. */
  readonly slot: number;
  readonly #slots: readonly number[];

  constructor(logIdentity: string) {
    this.log = createHash('sha256').update(logIdentity).digest('hex').slice(0, 16);
    this.generations = `plants:{${this.log}}:lists`;
    this.olderGenerations = `plants:{${this.log}}:generations`;
    this.lease = `plants:{${this.log}}:lease`;
    this.reports = `plants:{${this.log}}:reports`;
    this.channel = `plants:{${this.log}}:moved`;
    this.probe = `plants:{${this.log}}:probe`;
    this.allGenerations = `plants:{${this.log}:*}:g*`;
    this.slot = slotOf(this.log);
    this.#slots = Array.from({ length: PARTITIONS }, (_, partition) => slotOf(this.#tag(partition)));
  }

  /** The slot of a partition's keys. */
  slotOf(partition: number): number {
    return this.#slots[partition] ?? this.slot;
  }

  /** String, expires: a counter of requests, in the partition of its name. */
  counter(name: string): string {
    return `plants:{${this.#tag(partitionOf(name))}}:rate:${encodeOwner(name)}`;
  }

  /** String: the anchor of a partition, see stored-texts.ts. */
  anchor(generation: Generation, partition: number): string {
    return `plants:{${this.#tag(partition)}}:g${generation}:anchor`;
  }

  /** Sorted set: the plants of an owner of that partition. */
  plants(generation: Generation, partition: number, owner: string): string {
    return `plants:{${this.#tag(partition)}}:g${generation}:owner:${encodeOwner(owner)}`;
  }

  /** Hash: the blocked owners of that partition, see scripts.ts. */
  blocked(generation: Generation, partition: number): string {
    return `plants:{${this.#tag(partition)}}:g${generation}:parked`;
  }

  /** Matches the keys of plants of a generation. */
  owners(generation: Generation): string {
    return `plants:{${this.log}:*}:g${generation}:owner:*`;
  }

  /** The owner of a key found by `owners`; undefined for a key that `plants` never returns. */
  ownerOf(generation: Generation, key: string): string | undefined {
    const mark = `:g${generation}:owner:`;
    const owner = decodeOwner(key.slice(key.indexOf(mark) + mark.length));
    return owner !== undefined && this.plants(generation, partitionOf(owner), owner) === key
      ? owner
      : undefined;
  }

  #tag(partition: number): string {
    return `${this.log}:${String(partition).padStart(2, '0')}`;
  }

  /** The generation as it is named, also by older versions, and the slot of a key found by `allGenerations`. */
  parse(key: string): { generation: string; slot: number } | undefined {
    const [, partition, generation] = /^plants:\{[0-9a-f]+:(\d\d)\}:g([0-9a-f-]+):/.exec(key) ?? [];
    return generation === undefined ? undefined : { generation, slot: this.slotOf(Number(partition)) };
  }
}

/** The generation of a name in the registry; undefined for other fields. */
export const generationOf = (name: string): Generation | undefined =>
  /^[1-9]\d*$/.test(name) ? (Number(name) as Generation) : undefined;

/** The slot of a hash tag: its CRC-16/XMODEM. */
const slotOf = (tag: string): number => {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % SLOTS;
};

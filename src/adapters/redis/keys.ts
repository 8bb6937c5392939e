import { createHash, randomBytes } from 'node:crypto';
import { decodeOwner, encodeOwner } from '../../plants/stream.js';
import { type Generation, PARTITIONS, partitionOf } from '../../ports/read-model.js';

/** A Redis Cluster has so many slots. */
export const SLOTS = 16_384;

/**
 * One copy of the read model as its keys name it: the generation's number and a random part. The number may be
 * given again after the server has lost its data; what an earlier one has left behind is never taken for it.
 */
export type GenerationKey = string & { readonly __brand: 'Copy' };

export const newKeySuffix = (): string => randomBytes(6).toString('hex');

/**
 * The keys of one log's read model. Each partition has one hash tag, so that a cluster keeps what belongs together
 * on one server, where one script can touch it. docs/redis-keys.md shows them.
 */
export class Keys {
  /** Tells this log from others on the same server; short, since it stands in every owner's key. */
  readonly log: string;
  /** Hash of all copies: see scripts.ts. */
  readonly generations: string;
  /** The holder of the projector's lease. */
  readonly lease: string;
  /** Hash of what processes tell about themselves: see scripts.ts. */
  readonly reports: string;
  /** Hints that something has moved are published here. */
  readonly channel: string;
  /** A key to try commands on. */
  readonly probe: string;
  /** Matches every key of a copy. */
  readonly copies: string;
  /** The cluster's slot of the keys that belong to no partition. */
  readonly slot: number;
  readonly #slots: readonly number[];

  constructor(logIdentity: string) {
    this.log = createHash('sha256').update(logIdentity).digest('hex').slice(0, 16);
    this.generations = `plants:{${this.log}}:generations`;
    this.lease = `plants:{${this.log}}:lease`;
    this.reports = `plants:{${this.log}}:reports`;
    this.channel = `plants:{${this.log}}:moved`;
    this.probe = `plants:{${this.log}}:probe`;
    this.copies = `plants:{${this.log}:*}:g*`;
    this.slot = slotOf(this.log);
    this.#slots = Array.from({ length: PARTITIONS }, (_, partition) => slotOf(this.#tag(partition)));
  }

  /** The cluster's slot of a partition's keys. */
  slotOf(partition: number): number {
    return this.#slots[partition] ?? this.slot;
  }

  /** String, expires: a counter of requests, on the server of the partition that its name falls into. */
  counter(name: string): string {
    return `plants:{${this.#tag(partitionOf(name))}}:rate:${encodeOwner(name)}`;
  }

  /** String: up to where the copy's partition has come. */
  position(copy: GenerationKey, partition: number): string {
    return `plants:{${this.#tag(partition)}}:g${copy}:position`;
  }

  /** Sorted set: the plants of an owner of that partition. */
  plants(copy: GenerationKey, partition: number, owner: string): string {
    return `plants:{${this.#tag(partition)}}:g${copy}:owner:${encodeOwner(owner)}`;
  }

  /** Hash: the parked owners of that partition, see scripts.ts. */
  parked(copy: GenerationKey, partition: number): string {
    return `plants:{${this.#tag(partition)}}:g${copy}:parked`;
  }

  /** Matches the keys of plants of a copy. */
  owners(copy: GenerationKey): string {
    return `plants:{${this.log}:*}:g${copy}:owner:*`;
  }

  /** Whose plants a key found by `owners` holds; undefined where it is none that `plants` gives. */
  ownerOf(copy: GenerationKey, key: string): string | undefined {
    const mark = `:g${copy}:owner:`;
    const owner = decodeOwner(key.slice(key.indexOf(mark) + mark.length));
    return owner !== undefined && this.plants(copy, partitionOf(owner), owner) === key ? owner : undefined;
  }

  #tag(partition: number): string {
    return `${this.log}:${String(partition).padStart(2, '0')}`;
  }

  /** The copy and the slot that a key found by `copies` belongs to. */
  parse(key: string): { copy: GenerationKey; slot: number } | undefined {
    const [, partition, copy] = /^plants:\{[0-9a-f]+:(\d\d)\}:g(\d+-[0-9a-f]+):/.exec(key) ?? [];
    return copy === undefined
      ? undefined
      : { copy: copy as GenerationKey, slot: this.slotOf(Number(partition)) };
  }
}

/** The generation that a field of the hash of generations stands for; undefined for the fields that say else. */
export const generationOf = (field: string): Generation | undefined =>
  /^\d+$/.test(field) ? (Number(field) as Generation) : undefined;

/** CRC-16/XMODEM of a hash tag, which is how a cluster places keys. */
const slotOf = (tag: string): number => {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % SLOTS;
};

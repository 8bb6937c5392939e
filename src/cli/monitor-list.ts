import { existsSync, readFileSync } from 'node:fs';
import { decodeJwt } from 'jose';
import { pause } from '../async/pause.js';
import { type VerifierKey } from '../audit/note.js';
import { replaceDurably } from '../files/new-file.js';
import { type Answer, ask } from '../witness/ask.js';
import { LogUnreachable } from '../witness/monitor.js';
import {
  changesSince,
  type OwnChanges,
  ownList,
  type OwnListOptions,
  type OwnPlants,
} from '../witness/own-list.js';
import { UsageError } from './exit-status.js';

/** The longest answer that is read, in bytes: a page of 100 plants, or its proof, has some 200 kB at most. */
const MAX_ANSWER = 1_048_576;

/** Between two reads of a page that differs from its proof. */
const PAGE_PAUSE_MS = 500;

/** Ids that a person is shown of each kind of change. */
const SHOWN_IDS = 10;

/** The hosts that a token may be sent to without TLS. */
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The options of `plants monitor` that are about one's own list. */
export interface ListToMonitor {
  /** The file with the owner's token. It is read for each look, so that a new token may be put there. */
  readonly token: string;
  /** Whose list it is; whom the claim `sub` of the token names, without it. */
  readonly owner: string | undefined;
  readonly url: string;
  readonly keys: readonly VerifierKey[];
  /** The file of the last verified checkpoint: the last verified list is kept beside it. */
  readonly state: string | undefined;
}

/** A list that was verified, as it is printed. */
export interface ListSeen {
  readonly owner: string;
  readonly plants: number;
  /** False where the list is empty, and the token may not have the proof of that. */
  readonly proven: boolean;
  /** Since the last look; undefined at the first one. */
  readonly changes: OwnChanges | undefined;
}

/** Looks at one's own list, again and again. */
export class ListMonitor {
  readonly #owner: string;
  #before: OwnPlants | undefined;

  /** Throws UsageError for a token that cannot be read or must not be sent there, and a kept list of another owner. */
  constructor(private readonly options: ListToMonitor) {
    const { protocol, hostname } = new URL(options.url);
    if (protocol !== 'https:' && !LOOPBACK.test(hostname))
      throw new UsageError('a token is sent by https only, or to this machine: --token needs an https URL');
    this.#owner = options.owner ?? ownerOf(tokenIn(options.token));
    if (this.#file !== undefined && existsSync(this.#file)) this.#before = keptIn(this.#file, this.#owner);
  }

  /** Verifies the whole list. Throws LogRefused and LogUnreachable. */
  async look(follows: OwnListOptions['follows'], signal: AbortSignal): Promise<ListSeen> {
    const { keys } = this.options;
    const waited = async (): Promise<void> => {
      await pause(PAGE_PAUSE_MS, signal);
      signal.throwIfAborted();
    };
    const owner = this.#owner;
    const { plants, proven } = await ownList(
      { owner, keys, ask: this.#asker(), follows, pause: waited },
      signal,
    );
    const changes = this.#before && changesSince(this.#before, plants);
    if (this.#file !== undefined && (!changes || isChange(changes)))
      replaceDurably(this.#file, JSON.stringify({ owner, plants: [...plants] }));
    this.#before = plants;
    return { owner, plants: plants.size, proven, changes };
  }

  get #file(): string | undefined {
    return this.options.state === undefined ? undefined : `${this.options.state}.list`;
  }

  /** With the token that the file holds now. */
  #asker(): (path: string, signal: AbortSignal) => Promise<Answer> {
    let token: string;
    try {
      token = tokenIn(this.options.token);
    } catch (error) {
      throw new LogUnreachable((error as Error).message, { cause: error });
    }
    const headers = { authorization: `Bearer ${token}` };
    return (path, signal) => ask(`${this.options.url}${path}`, { headers }, MAX_ANSWER, signal);
  }
}

/** Whether anything has changed. */
export const isChange = ({ added, gone, again }: OwnChanges): boolean =>
  added.length + gone.length + again.length > 0;

/** A list in words. */
export const listText = ({ owner, plants, proven, changes }: ListSeen): string =>
  [
    `the list of ${JSON.stringify(owner)} is ${
      proven
        ? `the proven one, with ${plants} plants`
        : 'empty, which only a token with plants:audit has proven'
    }`,
    ...(changes
      ? [
          ...idsText('new', changes.added),
          ...idsText('gone', changes.gone),
          ...idsText('deleted and created again', changes.again),
        ]
      : []),
  ].join('; ');

const idsText = (what: string, ids: readonly number[]): string[] => {
  const more = ids.length - SHOWN_IDS;
  const shown = ids.slice(0, SHOWN_IDS).join(', ');
  return ids.length === 0 ? [] : [`${what}: ${shown}${more > 0 ? ` and ${more} more` : ''}`];
};

/** Throws UsageError. */
const tokenIn = (file: string): string => {
  let token: string;
  try {
    token = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new UsageError(`--token ${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? ''}`);
  }
  // RFC 6750, section 2.1: what may follow "Bearer ".
  if (!/^[\w\-.~+/]+=*$/.test(token)) throw new UsageError(`--token ${file} holds no bearer token`);
  return token;
};

const ownerOf = (token: string): string => {
  let sub: unknown;
  try {
    ({ sub } = decodeJwt(token));
  } catch {
    sub = undefined;
  }
  if (typeof sub !== 'string')
    throw new UsageError('the token does not say whose it is: name the owner with --owner');
  return sub;
};

/** The plants of the last look. Throws UsageError. */
const keptIn = (file: string, owner: string): OwnPlants => {
  let kept: { readonly owner?: unknown; readonly plants?: unknown };
  try {
    kept = Object(JSON.parse(readFileSync(file, 'utf8'))) as typeof kept;
  } catch {
    throw new UsageError(`${file}, beside --state, holds no list: move it away`);
  }
  if (kept.owner !== owner)
    throw new UsageError(`${file}, beside --state, is the list of another owner: take another --state`);
  const isPlant = (plant: unknown): plant is [number, string] =>
    Array.isArray(plant) && Number.isSafeInteger(plant[0]) && typeof plant[1] === 'string';
  if (!Array.isArray(kept.plants) || !kept.plants.every(isPlant))
    throw new UsageError(`${file}, beside --state, holds no list: move it away`);
  return new Map(kept.plants);
};

import { setImmediate as nextTurn } from 'node:timers/promises';
import { type LongPage } from '../../ports/read-model.js';

/** Plants of one step: 160 KB at most, half a millisecond of the event loop. */
const PLANTS_AT_ONCE = 100;

/** Plants of a list: their ids, and their texts separated by commas, in UTF-8. */
export interface PlantTexts {
  readonly ids: readonly number[];
  readonly texts: Uint8Array;
}

/** Reads up to `limit` plants with ids after that one (from the first, without it), in ascending order. */
export type PlantsAfter = (after: number | undefined, limit: number) => PlantTexts;

/** Reads a long list in steps, each in another turn of the event loop. All steps must read one state of the store. */
export const readLongList = async (
  read: PlantsAfter,
  after: number | undefined,
  limit: number,
): Promise<Omit<LongPage, 'position'>> => {
  const pieces: Uint8Array[] = [];
  let lastId: number | undefined;
  let ended = false;
  for (let left = limit; left > 0 && !ended;) {
    const asked = Math.min(PLANTS_AT_ONCE, left);
    const { ids, texts } = read(lastId ?? after, asked);
    if (ids.length > 0) pieces.push(lastId === undefined ? OPEN : COMMA, texts);
    lastId = ids.at(-1) ?? lastId;
    left -= ids.length;
    ended = ids.length < asked;
    await nextTurn();
  }
  pieces.push(lastId === undefined ? EMPTY : CLOSE);
  const more = !ended && read(lastId, 1).ids.length > 0;
  return { body: Buffer.concat(pieces), lastId, more };
};

const [OPEN, COMMA, CLOSE, EMPTY] = ['[', ',', ']', '[]'].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
  Buffer,
  Buffer,
];

/** SQL for PlantTexts. SQLite joins the texts: 1,000 values of 1.6 KB take three times as long as strings. */
export const PLANT_TEXTS = `SELECT group_concat(id), CAST(group_concat(row, ',') AS BLOB) FROM (
  SELECT id, row FROM plants WHERE generation = ? AND owner = ? AND id > ? ORDER BY id LIMIT ?
)`;

export type PlantTextsRow = readonly [ids: string | null, texts: Uint8Array];

/**
 * Converts a row of PLANT_TEXTS. SQLite aggregates rows in the order of the subquery, but does not promise it: throws
 * where it did not.
 */
export const plantTextsOf = ([joined, texts]: PlantTextsRow = [null, new Uint8Array()]): PlantTexts => {
  if (joined === null) return { ids: [], texts: new Uint8Array() };
  const ids = joined.split(',').map(Number);
  if (ids.some((id, index) => index > 0 && id <= Number(ids[index - 1])))
    throw new Error('SQLite has joined rows in another order than that of the ids');
  return { ids, texts };
};

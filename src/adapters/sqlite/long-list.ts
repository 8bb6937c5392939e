import { setImmediate as nextTurn } from 'node:timers/promises';
import { type LongPage } from '../../ports/read-model.js';

/** Plants that one step reads: 80 KB at most, and the event loop waits for half a millisecond. */
const PLANTS_AT_ONCE = 50;

/** The plants with ids after that one (the first ones, without it), in ascending order: at most `limit` of them. */
export type PlantsAfter = (after: number | undefined, limit: number) => [id: number, row: string][];

/** Reads a long list in steps; between them the event loop goes on. All steps must see one state of the store. */
export const readLongList = async (
  read: PlantsAfter,
  after: number | undefined,
  limit: number,
): Promise<Omit<LongPage, 'position'>> => {
  const pieces: Uint8Array[] = [];
  let lastId: number | undefined;
  let more = true;
  for (let left = limit; more && left > 0;) {
    const atOnce = Math.min(PLANTS_AT_ONCE, left);
    const rows = read(lastId ?? after, atOnce + 1);
    more = rows.length > atOnce;
    if (more) rows.length = atOnce;
    const before = lastId === undefined ? '[' : ',';
    if (rows.length > 0) pieces.push(Buffer.from(before + rows.map(([, row]) => row).join(',')));
    lastId = rows.at(-1)?.[0] ?? lastId;
    left -= rows.length;
    await nextTurn();
  }
  pieces.push(Buffer.from(lastId === undefined ? '[]' : ']'));
  return { body: Buffer.concat(pieces), lastId, more };
};

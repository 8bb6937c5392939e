import { type Position } from '../../ports/event-log.js';

/** How many events of an embedded log are after one position, up to another: its positions count them. */
export const eventsBetween = (after: Position, upTo: Position): number => Number(upTo) - Number(after);

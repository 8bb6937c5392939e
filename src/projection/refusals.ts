import { type EventRefused } from '../domain/errors.js';
import { type Position } from '../log/event-log.js';
import { type Generation, type BlockedOwner } from '../lists/read-model.js';
import { type CaughtUp } from './blocked-owners.js';
import { type RefusalListener } from './projection.js';

/** The handling of an event that the codec refuses. */
export type RefusalNotice =
  | { readonly kind: 'blocked'; readonly generation: Generation; readonly blocked: BlockedOwner }
  | ({ readonly kind: 'caughtUp'; readonly generation: Generation } & CaughtUp)
  | { readonly kind: 'passed over'; readonly refused: EventRefused; readonly position: Position };

/** Notifies of what the projection of a generation does with events that the codec refuses. */
export const noticesOf = (
  generation: Generation,
  onRefusal: (notice: RefusalNotice) => void,
): RefusalListener => ({
  onBlocked: (blocked) => {
    onRefusal({ kind: 'blocked', generation, blocked });
  },
  onCaughtUp: (caughtUp) => {
    onRefusal({ kind: 'caughtUp', generation, ...caughtUp });
  },
  onPassedOver: (refused, position) => {
    onRefusal({ kind: 'passed over', refused, position });
  },
});

import { type EventRefused } from '../domain/errors.js';
import { type Position } from '../log/event-log.js';
import { type Generation, type ParkedOwner } from '../lists/read-model.js';
import { type Healed } from './blocked-owners.js';
import { type RefusalListener } from './projection.js';

/** The handling of an event that the codec refuses. */
export type RefusalNotice =
  | { readonly kind: 'parked'; readonly generation: Generation; readonly parked: ParkedOwner }
  | ({ readonly kind: 'healed'; readonly generation: Generation } & Healed)
  | { readonly kind: 'passed over'; readonly refused: EventRefused; readonly position: Position };

/** Notifies of what the projection of a generation does with events that the codec refuses. */
export const noticesOf = (
  generation: Generation,
  onRefusal: (notice: RefusalNotice) => void,
): RefusalListener => ({
  onParked: (parked) => {
    onRefusal({ kind: 'parked', generation, parked });
  },
  onHealed: (healed) => {
    onRefusal({ kind: 'healed', generation, ...healed });
  },
  onPassedOver: (refused, position) => {
    onRefusal({ kind: 'passed over', refused, position });
  },
});

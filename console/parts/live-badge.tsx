/** State of a live stream. */
import { type Live } from '../live.js';

const WORDS = {
  connecting: 'Connecting…',
  live: 'Live',
  resting: 'Resting',
  broken: 'Not live',
} as const;

/** In a word, with the reason where it is broken. */
export const LiveBadge = ({ live }: { readonly live: Live }) => (
  <span class={`live ${live.state.value}`} title={live.reason.value ?? 'Changes are shown as they happen.'}>
    {WORDS[live.state.value]}
  </span>
);

/** Drawings in place of a word; the control that has one names itself by aria-label. */

export const Bin = () => (
  <svg class="glyph" viewBox="0 0 16 16" aria-hidden="true">
    <path d="M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.6 9h6.8l.6-9M6.7 7v4M9.3 7v4" />
  </svg>
);

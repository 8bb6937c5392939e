/** A list of any length of which only what is seen is in the document. */
import { type ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** Rows above and below what is seen that are there as well, so that quick scrolling shows no gap. */
const SPARE_ROWS = 8;

/**
 * Rows of one height, in a box that scrolls. It can be scrolled by keyboard; a screen reader is told the place of each
 * row in the whole list.
 */
export const VirtualList = <Item,>({
  items,
  rowHeight,
  label,
  keyOf,
  row,
  onEnd,
  onTop,
}: {
  readonly items: readonly Item[];
  /** In CSS pixels, the same for all. */
  readonly rowHeight: number;
  readonly label: string;
  readonly keyOf: (item: Item, index: number) => string | number;
  readonly row: (item: Item, index: number) => ComponentChildren;
  /** Called when the last rows come into sight: more can be loaded. */
  readonly onEnd?: () => void;
  /** Called when the list is scrolled away from its beginning, and when it is there again. */
  readonly onTop?: (isAtTop: boolean) => void;
}) => {
  const box = useRef<HTMLDivElement>(null);
  const [{ top, height }, setSeen] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = (): void => {
      setSeen({ top: element.scrollTop, height: element.clientHeight });
    };
    const resized = new ResizeObserver(look);
    resized.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener('scroll', look);
    };
  }, []);
  const first = Math.max(0, Math.floor(top / rowHeight) - SPARE_ROWS);
  const end = Math.min(items.length, Math.ceil((top + height) / rowHeight) + SPARE_ROWS);
  const atEnd = end >= items.length;
  useEffect(() => {
    if (atEnd) onEnd?.();
  }, [atEnd, items.length]);
  const isAtTop = top <= 0;
  useEffect(() => {
    onTop?.(isAtTop);
  }, [isAtTop]);
  return (
    <div class="virtual" ref={box} tabIndex={0} role="list" aria-label={label}>
      <div class="virtual-space" role="presentation" style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(first, end).map((item, index) => (
          <div
            key={keyOf(item, first + index)}
            class="virtual-row"
            role="listitem"
            aria-setsize={items.length}
            aria-posinset={first + index + 1}
            style={{ height: `${rowHeight}px`, transform: `translateY(${(first + index) * rowHeight}px)` }}
          >
            {row(item, first + index)}
          </div>
        ))}
      </div>
    </div>
  );
};

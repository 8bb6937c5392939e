/** The rows of the log. */
import { useEffect, useState } from 'preact/hooks';
import { Failure } from '../../parts/failure.js';
import { Name } from '../../parts/name.js';
import { localOf } from '../../parts/time.js';
import { VirtualList } from '../../parts/virtual-list.js';
import { type LogEvent } from '../../../src/transparency/event.js';
import { hrefOf, place } from '../../router.js';
import { decisionOf, ownerOf } from './log-filter.js';
import { type LogRow, type LogView } from './log-view.js';
import { subjectOf, wordOf } from './words.js';

/** In CSS pixels: two lines. */
const ROW_HEIGHT = 58;

/** A row has to be seen for so long before its event is asked for, in milliseconds: not while one scrolls past. */
const SEEN_MS = 60;

export const LogList = ({ view }: { readonly view: LogView }) => {
  const rows = view.rows.value;
  const [shown, setShown] = useState(0);
  const selected = place.value.query.get('event');
  return (
    <section aria-label="Events" class="stack" aria-busy={view.size.value === undefined}>
      {view.error.value !== undefined && (
        <Failure
          error={view.error.value}
          onRetry={() => {
            view.retry();
          }}
        />
      )}
      <div class="search">
        <Counted view={view} />
        {view.newer.value > 0 && (
          <button
            type="button"
            onClick={() => {
              view.hold(false);
              setShown(shown + 1);
            }}
          >
            {view.newer.value.toLocaleString()} newer: go there
          </button>
        )}
      </div>
      {rows.length > 0 && (
        <VirtualList
          key={shown}
          items={rows}
          rowHeight={ROW_HEIGHT}
          label="Events, the newest first"
          keyOf={(row) => (typeof row === 'number' ? row : row.event.id)}
          row={(row) => (
            <Row view={view} row={row} isSelected={typeof row === 'number' && String(row) === selected} />
          )}
          onEnd={() => void view.search()}
          onTop={(isAtTop) => {
            view.hold(!isAtTop);
          }}
        />
      )}
      <Rest view={view} />
    </section>
  );
};

/** The number of events, and how far a filtered log was searched. */
const Counted = ({ view }: { readonly view: LogView }) => {
  const size = view.size.value;
  const searched = view.searchedTo.value;
  const rows = view.rows.value.length;
  if (size === undefined) return <p class="small faint">Loading…</p>;
  return (
    <p class="small faint number" role="status">
      {searched === undefined
        ? `${size.toLocaleString()} events are signed`
        : `${rows.toLocaleString()} found in ${(size - searched).toLocaleString()} of ${size.toLocaleString()} events${
            view.searching.value ? '; searching…' : ''
          }`}
    </p>
  );
};

/** For a list that ends before the log does. */
const Rest = ({ view }: { readonly view: LogView }) => {
  const rows = view.rows.value;
  const last = rows.at(-1);
  const searched = view.searchedTo.value;
  const query = Object.fromEntries(place.value.query);
  if (view.size.value !== undefined && rows.length === 0 && !view.searching.value)
    return (
      <p class="empty">{searched === undefined ? 'The log holds no event.' : 'No event is like this.'}</p>
    );
  if (searched !== undefined || typeof last !== 'number' || last === 0) return null;
  return (
    <div class="actions">
      <a class="button" href={hrefOf('log', { ...query, from: last - 1 })}>
        Older than event {last}
      </a>
    </div>
  );
};

const Row = ({
  view,
  row,
  isSelected,
}: {
  readonly view: LogView;
  readonly row: LogRow;
  readonly isSelected: boolean;
}) => {
  // Drawn again when events have come.
  const event = view.loaded.value >= 0 ? view.eventOf(row) : undefined;
  const isMissing = event === undefined;
  useEffect(() => {
    if (typeof row !== 'number' || !isMissing) return;
    const timer = setTimeout(() => {
      view.want(row);
    }, SEEN_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [view, row, isMissing]);
  if (!event) return <div class="log-row faint">Event {typeof row === 'number' ? row : ''}…</div>;
  const content = <RowContent event={event} index={typeof row === 'number' ? row : undefined} />;
  if (typeof row !== 'number') return <div class="log-row">{content}</div>;
  return (
    <a
      class={`log-row ${isSelected ? 'selected' : ''}`}
      href={hrefOf('log', { ...Object.fromEntries(place.value.query), event: row })}
      {...(isSelected && { 'aria-current': 'true' })}
    >
      {content}
    </a>
  );
};

const RowContent = ({
  event,
  index,
}: {
  readonly event: LogEvent;
  /** Undefined where no checkpoint covers it yet. */
  readonly index: number | undefined;
}) => {
  const { at } = decisionOf(event);
  const time = new Date(at ?? NaN);
  const owner = ownerOf(event.stream);
  return (
    <>
      <span class="one-line">
        <strong>{wordOf(event.type)}</strong> <Name text={subjectOf(event)} />
      </span>
      <span class="one-line small faint number">
        {index === undefined ? 'not signed yet' : `event ${index}`}
        {!Number.isNaN(time.getTime()) && ` · ${localOf(time)}`}
        {owner !== undefined && (
          <>
            {' · '}
            <Name text={owner} />
          </>
        )}
      </span>
    </>
  );
};

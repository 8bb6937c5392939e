/** The page of an auditor: the log, newest first, as it grows, and one event of it with its proof. */
import { useEffect, useMemo } from 'preact/hooks';
import { LiveBadge } from '../../parts/live-badge.js';
import { TrustForm } from '../../parts/trust-form.js';
import { hrefOf, place } from '../../router.js';
import { session } from '../../session.js';
import { Alarms } from './alarms.js';
import { EventPanel } from './event-panel.js';
import { FilterForm } from './filter-form.js';
import { FILTERS, filterOf } from './log-filter.js';
import { LogList } from './log-list.js';
import { LogView } from './log-view.js';

/** A number of an address, where it is one. */
const indexIn = (text: string | null): number | undefined =>
  text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;

const LogPage = () => {
  const { query } = place.value;
  const filter = filterOf(query);
  const from = indexIn(query.get('from'));
  const event = indexIn(query.get('event'));
  const token = session.value?.token;
  const shown = FILTERS.map((name) => filter[name]).join('\n');
  const view = useMemo(() => new LogView(filter, from), [shown, from, token]);
  useEffect(() => {
    view.open();
    return () => {
      view.close();
    };
  }, [view]);
  const rest = Object.fromEntries(query);
  return (
    <>
      <div class="page-head">
        <h1>Log</h1>
        {view.live.value && <LiveBadge live={view.live.value} />}
        {from !== undefined && (
          <a class="button" href={hrefOf('log', { ...rest, from: undefined })}>
            The newest events
          </a>
        )}
      </div>
      <div class="split">
        <div class="stack">
          <Alarms quiet />
          <FilterForm key={shown} filter={filter} />
          <LogList key={`${shown} ${from ?? ''}`} view={view} />
        </div>
        <aside aria-label="One event">
          {event !== undefined && <EventPanel key={event} index={event} />}
          <TrustForm open={false} />
        </aside>
      </div>
    </>
  );
};

export default LogPage;

/** The page of an operator: is all well, and what can be done. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { notify } from '../../parts/notices.js';
import { session } from '../../session.js';
import { Chart } from './chart.js';
import { Erasures } from './erasures.js';
import { Past } from './past.js';
import { RebuildCard } from './rebuild.js';
import { StatusWatch } from './status-watch.js';
import { type SystemStatus } from './status.js';
import { Compared, Generations, Processes, Trees } from './tables.js';
import { Unread } from './unread.js';
import { VerdictCard } from './verdict-card.js';

const WORDS = { connecting: 'Connecting…', live: 'Live', resting: 'Resting', broken: 'Not live' } as const;

const Live = ({ watch }: { readonly watch: StatusWatch }) => {
  const live = watch.live.value;
  const state = live?.state.value ?? 'connecting';
  return (
    <span class={`live ${state}`} title={live?.reason.value ?? 'The status is shown as it changes.'}>
      {state === 'broken' && watch.isCurrent ? 'Asked for every 6 s' : WORDS[state]}
    </span>
  );
};

const Charts = ({ watch: { samples, now, status } }: { readonly watch: StatusWatch }) => {
  const at = now.value;
  const anyAuditor = status.value?.processes.some(({ auditor }) => auditor);
  return (
    <section class="card charts whole" aria-label="The last 15 minutes">
      <Chart title="Lists behind, in time" unit="s" series={samples.lag(at, 'seconds')} />
      <Chart title="Lists behind, in events" unit="events" series={samples.lag(at, 'events')} />
      {anyAuditor && <Chart title="New events" unit="events/s" series={samples.rate(at)} />}
    </section>
  );
};

/** Says what has come of a rebuild or an erasure while one was looking. */
const useOutcomes = (status: SystemStatus | undefined): void => {
  const before = useRef<SystemStatus | undefined>(undefined);
  useEffect(() => {
    const { lastRebuild, erasures } = before.current ?? {};
    before.current = status;
    if (!status || !erasures) return;
    const last = status.lastRebuild;
    const isNew = last?.rebuild !== lastRebuild?.rebuild || last?.outcome !== lastRebuild?.outcome;
    // Whoever cancels it has been told.
    if (last && isNew && !last.outcome.startsWith('cancelled'))
      notify({ text: `The rebuild was ${last.outcome}.` });
    for (const { erasure, reason } of erasures)
      if (!status.erasures.some((one) => one.erasure === erasure))
        notify({ text: `The erasure is over: ${reason}` });
  }, [status]);
};

/** A text that is another one when the list of operations may be. */
const askedFor = ({ rebuild, lastRebuild, erasures, skipped, wayBack }: SystemStatus): string =>
  JSON.stringify([rebuild?.rebuild, lastRebuild, erasures, skipped.length, wayBack]);

const OperationsPage = () => {
  const token = session.value?.token;
  const watch = useMemo(() => new StatusWatch(), []);
  useEffect(() => {
    watch.open();
    return () => {
      watch.close();
    };
  }, [watch, token]);
  const status = watch.status.value;
  const now = watch.now.value;
  useOutcomes(status);
  return (
    <>
      <div class="page-head">
        <h1>Operations</h1>
        <Live watch={watch} />
      </div>
      <div class={`operations ${watch.isCurrent ? '' : 'old'}`}>
        <VerdictCard watch={watch} />
        {status && (
          <>
            <Charts watch={watch} />
            <Unread status={status} />
            <RebuildCard status={status} now={now} />
            <Compared status={status} now={now} />
            <Erasures status={status} />
            <div class="stack whole">
              <Processes status={status} now={now} />
              <Generations status={status} />
              <Trees status={status} now={now} />
            </div>
            <Past changed={askedFor(status)} />
          </>
        )}
      </div>
    </>
  );
};

export default OperationsPage;

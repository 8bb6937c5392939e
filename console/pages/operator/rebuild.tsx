/** The rebuild of the lists: started, watched, cancelled, rolled back. */
import { useState } from 'preact/hooks';
import { Field } from '../../parts/field.js';
import { Name } from '../../parts/name.js';
import { Time } from '../../parts/time.js';
import { Action, Ask, useTyped } from './ask.js';
import { counted, duration, number, percent } from './figures.js';
import { type Rebuild, type SystemStatus } from './status.js';

type Asking = 'rebuild' | 'cancel' | 'rollback';

export const RebuildCard = ({
  status: { rebuild, lastRebuild, wayBack, skipped },
  now,
}: {
  readonly status: SystemStatus;
  readonly now: number;
}) => {
  const [asking, setAsking] = useState<Asking>();
  const ask = (what: Asking | undefined) => (): void => {
    setAsking(what);
  };
  const close = ask(undefined);
  const back = wayBack && Date.parse(wayBack.until) > now ? wayBack : null;
  return (
    <section class="card" aria-labelledby="rebuild">
      <h2 id="rebuild">Rebuild of the lists</h2>
      {rebuild && <Progress rebuild={rebuild} />}
      {!rebuild && (
        <p>
          None runs.
          {lastRebuild && (
            <>
              {' '}
              The last one was <Name text={lastRebuild.outcome} />, <Time at={lastRebuild.at} />.
            </>
          )}
        </p>
      )}
      {back && (
        <p class="hint">
          You can go back to generation {back.generation} until <Time at={back.until} />.
        </p>
      )}
      <div class="actions">
        <Action
          text={rebuild ? 'Cancel the rebuild…' : 'Rebuild…'}
          danger={rebuild !== null}
          onClick={ask(rebuild ? 'cancel' : 'rebuild')}
        />
        {back && !rebuild && <Action text="Roll back…" danger onClick={ask('rollback')} />}
      </div>
      {asking === 'rebuild' && <AskRebuild anySkipped={skipped.length > 0} onClose={close} />}
      {asking === 'cancel' && rebuild && <AskCancel id={rebuild.rebuild} onClose={close} />}
      {asking === 'rollback' && back && <AskRollback generation={back.generation} onClose={close} />}
    </section>
  );
};

const Progress = ({
  rebuild: { rebuild, requestedAt, phase, events, total, eventsPerSecond, share, secondsLeft, problem },
}: {
  readonly rebuild: Rebuild;
}) => (
  <>
    <p class="number">
      <strong>{phase.charAt(0).toUpperCase() + phase.slice(1).replace('_', ' ')}</strong>
      {share !== null && `, ${percent(share)}`}
      {secondsLeft !== null && `, ${duration(Math.ceil(secondsLeft))} left`}
    </p>
    <progress aria-label="Progress of the rebuild" {...(share !== null && { value: share, max: 1 })} />
    {problem !== null && (
      <p class="fault">
        <Name text={problem} />
      </p>
    )}
    <dl class="facts number">
      {events !== null && (
        <>
          <dt>Applied</dt>
          <dd>
            {number(events)}
            {total === null ? ' events' : ` of ${counted(total, 'event')}`}
            {eventsPerSecond !== null && `, ${number(eventsPerSecond)} a second`}
          </dd>
        </>
      )}
      <dt>Asked for</dt>
      <dd>
        <Time at={requestedAt} />
      </dd>
      <dt>Id</dt>
      <dd class="mono">{rebuild}</dd>
    </dl>
  </>
);

interface Asked {
  readonly onClose: () => void;
}

const AskRebuild = ({ anySkipped, onClose }: Asked & { readonly anySkipped: boolean }) => {
  const { typed, field } = useTyped({ rate: '' });
  const [unskip, setUnskip] = useState(false);
  const rate = typed.rate.trim();
  const isRate = rate === '' || /^[1-9]\d{0,14}$/.test(rate);
  return (
    <Ask
      title="Rebuild the lists?"
      confirm="Rebuild"
      order={{
        method: 'POST',
        path: 'operations/rebuilds',
        body: JSON.stringify({ ...(rate !== '' && { rate: Number(rate) }), ...(unskip && { unskip }) }),
      }}
      done="A rebuild is requested."
      ready={isRate}
      onClose={onClose}
      onDone={onClose}
    >
      <p>
        The lists are built a second time, from the whole log, beside those that are answered; then compared
        with the log, and switched to at once. Requests go on meanwhile, some of them slower. For 15 minutes
        afterwards you can go back.
      </p>
      <Field
        label="At most so many events a second"
        {...field('rate')}
        inputMode="numeric"
        hint="Empty: as many as go."
        fault={isRate ? undefined : 'Must be a whole number of at least 1.'}
      />
      {anySkipped && (
        <label class="check">
          <input
            type="checkbox"
            checked={unskip}
            onChange={(event) => {
              setUnskip(event.currentTarget.checked);
            }}
          />
          Look again at events that were skipped
        </label>
      )}
    </Ask>
  );
};

const AskCancel = ({ id, onClose }: Asked & { readonly id: string }) => (
  <Ask
    title="Cancel the rebuild?"
    confirm="Cancel the rebuild"
    order={{ method: 'DELETE', path: `operations/rebuilds/${id}` }}
    done="The rebuild is cancelled."
    danger
    onClose={onClose}
    onDone={onClose}
  >
    <p>What it has built is dropped. Lists are answered as before.</p>
  </Ask>
);

const AskRollback = ({ generation, onClose }: Asked & { readonly generation: number }) => {
  const { typed, field } = useTyped({ reason: '' });
  const reason = typed.reason.trim();
  return (
    <Ask
      title="Roll the rebuild back?"
      confirm="Roll back"
      order={{
        method: 'POST',
        path: 'operations/rollback',
        body: JSON.stringify(reason === '' ? {} : { reason }),
      }}
      done="The rollback is requested."
      danger
      onClose={onClose}
      onDone={onClose}
    >
      <p>
        Lists are answered from generation {generation} again, which was kept up to date. No plant is lost by
        it. What the rebuild has made is not answered any more; another rebuild makes it again.
      </p>
      <Field label="Why" {...field('reason')} dir="auto" hint="Stays in the log. May be empty." />
    </Ask>
  );
};

/** Erasures of owners: ordered, and followed step by step. */
import { useState } from 'preact/hooks';
import { Field } from '../../parts/field.js';
import { Name } from '../../parts/name.js';
import { Time } from '../../parts/time.js';
import { allows } from '../../session.js';
import { Action, Ask, useTyped } from './ask.js';
import { type SystemStatus } from './status.js';

/** Steps, by the state that an erasure has while each is done (docs/erasure.md). */
const STEPS = [
  ['ordered', 'Plants are deleted, and the events taken out of the log'],
  ['erased', 'Files of the stores are cleared of what they held'],
  ['finished', 'Nothing is left'],
] as const;

export const Erasures = ({ status: { erasures } }: { readonly status: SystemStatus }) => {
  const [asking, setAsking] = useState(false);
  const mayErase = allows('plants:erase');
  if (!mayErase && erasures.length === 0) return null;
  const close = (): void => {
    setAsking(false);
  };
  return (
    <section class="card" aria-labelledby="erasures">
      <h2 id="erasures">Erasures</h2>
      {erasures.length === 0 && <p>None is in progress.</p>}
      {erasures.map(({ erasure, state, reason, by, since }) => (
        <div key={erasure} class="stack">
          <p>
            <Name text={reason} />, by <Name text={by} of="nobody named" />
          </p>
          <ol class="erasure-steps">
            {STEPS.map(([step, words]) => (
              <li key={step} {...(step === state && { 'aria-current': 'step' })}>
                {words}
                {step === state && (
                  <span class="small faint">
                    {' '}
                    since <Time at={since} />
                  </span>
                )}
              </li>
            ))}
          </ol>
          <p class="mono small faint">{erasure}</p>
        </div>
      ))}
      {mayErase && (
        <div class="actions">
          <Action
            text="Erase an owner…"
            danger
            onClick={() => {
              setAsking(true);
            }}
          />
        </div>
      )}
      {asking && <AskErase onClose={close} />}
    </section>
  );
};

const AskErase = ({ onClose }: { readonly onClose: () => void }) => {
  const { typed, field } = useTyped({ owner: '', again: '', reason: '' });
  const { owner, again } = typed;
  const reason = typed.reason.trim();
  return (
    <Ask
      title="Erase an owner?"
      confirm="Erase for good"
      order={{ method: 'POST', path: 'operations/erasures', body: JSON.stringify({ owner, reason }) }}
      done="The erasure is ordered."
      ready={owner !== '' && again === owner && reason !== ''}
      danger
      onClose={onClose}
      onDone={onClose}
    >
      <p>
        All plants and events of this owner are removed from all stores. It cannot be undone, and cannot be
        stopped once it has begun. A hash of each event is left, so that earlier proofs still verify. Backups
        are out of its reach.
      </p>
      <Field label="Owner" {...field('owner')} dir="auto" hint="As tokens name the account, to the letter." />
      <Field
        label="The same owner again"
        {...field('again')}
        dir="auto"
        fault={again !== '' && !owner.startsWith(again) ? 'Is not the same.' : undefined}
      />
      <Field
        label="Why"
        {...field('reason')}
        dir="auto"
        hint="Stays in the log, and must not name the owner: the number of a request, for example."
      />
    </Ask>
  );
};

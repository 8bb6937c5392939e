/** Events that cannot be read: what they stop, and how they are left out. */
import { useState } from 'preact/hooks';
import { Field } from '../../parts/field.js';
import { Name } from '../../parts/name.js';
import { Time } from '../../parts/time.js';
import { Action, Ask, useTyped } from './ask.js';
import { counted } from './figures.js';
import { Table } from './parts.js';
import { type SystemStatus, type UnreadEvent } from './status.js';

const nameOf = ({ stream, revision }: Pick<UnreadEvent, 'stream' | 'revision'>): string =>
  `${stream}@${revision}`;

export const Unread = ({ status: { parked, skipped } }: { readonly status: SystemStatus }) => {
  const [asked, setAsked] = useState<UnreadEvent>();
  const { owners, events } = parked;
  const close = (): void => {
    setAsked(undefined);
  };
  return (
    <>
      {events.length > 0 && (
        <section class="card whole" aria-labelledby="unread">
          <h2 id="unread">Events that cannot be read</h2>
          <p>
            {`The lists of ${counted(owners, 'owner')} are not answered; all others are.`}{' '}
            {owners > events.length && `The first ${events.length} are shown.`}
          </p>
          <Table caption="Unread events" columns={['Position', 'Event', 'Why', 'Action']}>
            {events.map((event) => (
              <tr key={event.position}>
                <th scope="row" class="mono">
                  {event.position}
                </th>
                <td class="mono">
                  <Name text={nameOf(event)} />
                </td>
                <td>
                  <Name text={event.reason} />
                </td>
                <td>
                  <Action
                    text="Skip"
                    label={`Skip the event at ${event.position}`}
                    danger
                    onClick={() => {
                      setAsked(event);
                    }}
                  />
                </td>
              </tr>
            ))}
          </Table>
        </section>
      )}
      {skipped.length > 0 && <Skipped skipped={skipped} />}
      {asked && <AskSkip event={asked} onClose={close} />}
    </>
  );
};

const Skipped = ({ skipped }: Pick<SystemStatus, 'skipped'>) => (
  <div class="whole">
    <Table caption="Events that were skipped" columns={['Event', 'Why', 'By', 'When', 'Now']}>
      {skipped.map(({ stream, revision, reason, by, at, inForce }) => (
        <tr key={`${at} ${stream} ${revision}`}>
          <th scope="row" class="mono">
            <Name text={nameOf({ stream, revision })} />
          </th>
          <td>
            <Name text={reason} />
          </td>
          <td>
            <Name text={by} />
          </td>
          <td>
            <Time at={at} />
          </td>
          <td>{inForce ? 'left out' : 'looked at again'}</td>
        </tr>
      ))}
    </Table>
  </div>
);

const AskSkip = ({ event, onClose }: { readonly event: UnreadEvent; readonly onClose: () => void }) => {
  const { typed, field } = useTyped({ position: '', reason: '' });
  const [force, setForce] = useState(false);
  const isNewer = event.kind === 'newer_version';
  const reason = typed.reason.trim();
  return (
    <Ask
      title="Skip this event?"
      confirm="Skip it"
      order={{
        method: 'POST',
        path: 'operations/skips',
        body: JSON.stringify({ position: event.position, reason, ...(force && { force }) }),
      }}
      done="The event is skipped: lists go on in a few seconds."
      ready={typed.position.trim() === event.position && reason !== '' && (force || !isNewer)}
      danger
      onClose={onClose}
      onDone={onClose}
    >
      <dl class="facts">
        <dt>Position</dt>
        <dd class="mono">{event.position}</dd>
        <dt>Event</dt>
        <dd class="mono">
          <Name text={nameOf(event)} />
        </dd>
        <dt>Why</dt>
        <dd>
          <Name text={event.reason} />
        </dd>
      </dl>
      <p>
        It stays in the log, and is left out of the lists: what it would have changed in them is not there. A
        rebuild that looks again at skipped events undoes it.
      </p>
      {isNewer && (
        <label class="check">
          <input
            type="checkbox"
            checked={force}
            onChange={({ currentTarget }) => {
              setForce(currentTarget.checked);
            }}
          />
          A newer version of this service can read it. Skip it all the same, instead of an upgrade
        </label>
      )}
      <Field label="Its position, to confirm" {...field('position')} inputMode="numeric" />
      <Field label="Why" {...field('reason')} dir="auto" hint="Stays in the log." />
    </Ask>
  );
};

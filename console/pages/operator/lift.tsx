/** Lifting the alarm of an auditor. */
import { useState } from 'preact/hooks';
import { Field } from '../../parts/field.js';
import { Action, Ask, useTyped } from './ask.js';

export const LiftAlarm = () => {
  const [asking, setAsking] = useState(false);
  const { typed, field } = useTyped({ reason: '' });
  const reason = typed.reason.trim();
  const close = (): void => {
    setAsking(false);
  };
  return (
    <>
      <Action
        text="Lift the alarm…"
        danger
        onClick={() => {
          setAsking(true);
        }}
      />
      {asking && (
        <Ask
          title="Lift the alarm?"
          confirm="Lift the alarm"
          order={{ method: 'POST', path: 'operations/lifts', body: JSON.stringify({ reason }) }}
          done="The alarm is lifted: the auditor reads the whole log before it signs."
          ready={reason !== ''}
          danger
          onClose={close}
          onDone={close}
        >
          <p>
            Lift it once you know why it was raised, and the log is as it was signed. The auditor then reads
            the whole log, and raises the alarm again if the log is still not what was signed.
          </p>
          <Field label="Why" {...field('reason')} dir="auto" hint="Is kept with the alarm." />
        </Ask>
      )}
    </>
  );
};

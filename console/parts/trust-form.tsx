/** The keys that this browser trusts. */
import { useState } from 'preact/hooks';
import { messageOf } from '../problem.js';
import { explained, KeyRefused, trustedKeys, type TrustedKeys, trustKeys } from '../trust.js';
import { Area } from './field.js';
import { notify } from './notices.js';

/** A form in a fold: open where no key is trusted yet. */
export const TrustForm = ({ open = trustedKeys.peek().log === '' }: { readonly open?: boolean }) => {
  const [typed, setTyped] = useState<TrustedKeys>(trustedKeys.peek());
  const [fault, setFault] = useState<KeyRefused>();
  const save = (event: SubmitEvent): void => {
    event.preventDefault();
    trustKeys(typed).then(
      () => {
        setFault(undefined);
        notify({ text: 'These keys are trusted in this browser from now on.' });
      },
      (error: unknown) => {
        setFault(error instanceof KeyRefused ? error : new KeyRefused('log', messageOf(explained(error))));
      },
    );
  };
  const faultOf = (field: KeyRefused['field']): string | undefined =>
    fault?.field === field ? fault.message : undefined;
  return (
    <details class="card" open={open}>
      <summary>
        <h2>Keys that you trust</h2>
      </summary>
      <form onSubmit={save} noValidate>
        <Area
          label="Keys of the log"
          hint="What plants audit-key prints, one on each line, old and new. They have to come to you by a way that you trust: not from this page."
          value={typed.log}
          fault={faultOf('log')}
          onInput={(log) => {
            setTyped({ ...typed, log });
          }}
        />
        <Area
          label="Keys of witnesses"
          hint="One on each line, or a tlog-policy. May be empty."
          value={typed.witnesses}
          fault={faultOf('witnesses')}
          onInput={(witnesses) => {
            setTyped({ ...typed, witnesses });
          }}
        />
        <div class="field">
          <label for="required-witnesses">How many of them have to have cosigned</label>
          <input
            id="required-witnesses"
            type="number"
            min="0"
            max="100"
            value={typed.required}
            onInput={(event) => {
              setTyped({ ...typed, required: Math.max(0, Math.trunc(Number(event.currentTarget.value))) });
            }}
          />
        </div>
        <div class="actions">
          <button type="submit">Trust these keys</button>
        </div>
      </form>
    </details>
  );
};

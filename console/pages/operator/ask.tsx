/** Every action asks once, in a dialog that says what will happen. */
import { type ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { newKey, send } from '../../api.js';
import { Dialog } from '../../parts/dialog.js';
import { Failure } from '../../parts/failure.js';
import { notify } from '../../parts/notices.js';

/** A button that asks before anything is done. */
export const Action = ({
  text,
  label,
  danger = false,
  onClick,
}: {
  readonly text: string;
  /** A name where the text alone does not say it. */
  readonly label?: string;
  readonly danger?: boolean;
  readonly onClick: () => void;
}) => (
  <button
    type="button"
    class={danger ? 'danger' : ''}
    {...(label && { 'aria-label': label })}
    onClick={onClick}
  >
    {text}
  </button>
);

/** Sent when the answer is yes. */
interface Order {
  readonly method: 'POST' | 'DELETE';
  readonly path: string;
  readonly body?: string;
}

/** Open for as long as it is rendered. `onDone` is called once the order was taken, `onClose` where it is let be. */
export const Ask = ({
  title,
  confirm,
  order: { method, path, body },
  done,
  ready = true,
  danger = false,
  children,
  onClose,
  onDone,
}: {
  readonly title: string;
  readonly confirm: string;
  readonly order: Order;
  /** Said once the service has taken the order. */
  readonly done: string;
  /** True if what was typed is complete. */
  readonly ready?: boolean;
  readonly danger?: boolean;
  readonly children: ComponentChildren;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) => {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  /** The same for as long as the same is sent, so that pressing the button again orders nothing twice. */
  const attempt = useRef<{ readonly body: string | undefined; readonly key: string } | undefined>(undefined);
  const submit = async (): Promise<void> => {
    if (busy || !ready) return;
    if (!attempt.current || attempt.current.body !== body) attempt.current = { body, key: newKey() };
    setBusy(true);
    try {
      await send(path, {
        ...{ method, idempotencyKey: attempt.current.key },
        ...(body !== undefined && { body }),
      });
      notify({ text: done });
      onDone();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        autocomplete="off"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {children}
        {error !== undefined && <Failure error={error} />}
        <div class="actions">
          <button type="submit" class={danger ? 'danger' : 'primary'} disabled={!ready} aria-disabled={busy}>
            {busy ? 'Sending…' : confirm}
          </button>
          <button type="button" onClick={onClose}>
            Leave it
          </button>
        </div>
      </form>
    </Dialog>
  );
};

/** Values of the fields of a dialog, by their names, and the properties that `Field` takes for each. */
export const useTyped = <Name extends string>(empty: Readonly<Record<Name, string>>) => {
  const [typed, setTyped] = useState(empty);
  const field = (name: Name) => ({
    name,
    value: typed[name],
    autocomplete: 'off',
    onInput: (event: InputEvent) => {
      const { value } = event.currentTarget as HTMLInputElement;
      setTyped((before) => ({ ...before, [name]: value }));
    },
  });
  return { typed, field };
};

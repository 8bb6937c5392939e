/** A labelled field of a form, with what is wrong with it beside it. */
import { useId } from 'preact/hooks';

interface FieldProps {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  readonly hint?: string;
  readonly fault?: string | undefined;
  readonly inputMode?: 'numeric' | 'text';
  readonly dir?: 'auto';
  readonly autocomplete?: string;
  readonly onInput: (event: InputEvent) => void;
}

/** A field of one line. `fault` is read with it, and marks it as wrong. */
export const Field = ({ label, hint, fault, ...input }: FieldProps) => {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(' ');
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        {...input}
        type="text"
        id={id}
        aria-invalid={fault ? 'true' : 'false'}
        {...(described !== '' && { 'aria-describedby': described })}
      />
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {fault && (
        <p class="fault" id={`${id}-fault`}>
          {fault}
        </p>
      )}
    </div>
  );
};

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
  readonly type?: 'text' | 'datetime-local';
  /** Of a time, in seconds. */
  readonly step?: string;
  /** The id of the texts that are offered. */
  readonly list?: string;
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
        type="text"
        {...input}
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

/** A field of several lines, for text that is pasted. `fault` is read with it, and marks it as wrong. */
export const Area = ({
  label,
  value,
  hint,
  fault,
  rows = 3,
  onInput,
}: {
  readonly label: string;
  readonly value: string;
  readonly hint?: string;
  readonly fault?: string | undefined;
  readonly rows?: number;
  readonly onInput: (value: string) => void;
}) => {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(' ');
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        class="mono"
        rows={rows}
        value={value}
        spellcheck={false}
        autocomplete="off"
        aria-invalid={fault ? 'true' : 'false'}
        {...(described !== '' && { 'aria-describedby': described })}
        onInput={(event) => {
          onInput(event.currentTarget.value);
        }}
      />
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {fault && (
        <p class="fault" id={`${id}-fault`}>
          <bdi>{fault}</bdi>
        </p>
      )}
    </div>
  );
};

/** Adding a plant. */
import { useRef, useState } from 'preact/hooks';
import { newKey } from '../../api.js';
import { Failure } from '../../parts/failure.js';
import { Field } from '../../parts/field.js';
import { notify } from '../../parts/notices.js';
import { ApiProblem } from '../../problem.js';
import { addPlant } from './changes.js';
import { bodyOf } from './plant-body.js';
import { type PlantList } from './plant-list.js';

const EMPTY = { name: '', tag: '', id: '' };

/** The refusals of a problem document, by the field that they are about. */
const faultsOf = (error: unknown): Readonly<Record<string, string>> => {
  if (!(error instanceof ApiProblem)) return {};
  if (error.code === 'plant_exists') return { id: error.message };
  return Object.fromEntries(error.errors.map(({ pointer, detail }) => [pointer.replace(/^\//, ''), detail]));
};

export const AddForm = ({ list }: { readonly list: PlantList }) => {
  const [typed, setTyped] = useState(EMPTY);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  /** The same for as long as the same is sent, so that pressing the button again adds nothing twice. */
  const attempt = useRef({ body: '', key: '' });
  const faults = faultsOf(error);
  const isElsewhere = error !== undefined && Object.keys(faults).length === 0;

  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const body = bodyOf(typed);
    if (attempt.current.body !== body) attempt.current = { body, key: newKey() };
    setBusy(true);
    try {
      const plant = await addPlant(list, body, attempt.current.key);
      attempt.current = { body: '', key: '' };
      setError(undefined);
      setTyped(EMPTY);
      notify({ subject: plant.name, text: 'was added.' });
      form.current?.querySelector('input')?.focus();
    } catch (failure) {
      setError(failure);
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
    } finally {
      setBusy(false);
    }
  };
  const field = (name: keyof typeof EMPTY) => ({
    name,
    value: typed[name],
    fault: faults[name],
    autocomplete: 'off',
    onInput: (event: InputEvent) => {
      const { value } = event.currentTarget as HTMLInputElement;
      setTyped((before) => ({ ...before, [name]: value }));
    },
  });
  return (
    <form ref={form} onSubmit={(event) => void submit(event)} noValidate>
      <Field label="Name" {...field('name')} dir="auto" />
      <Field label="Tag" {...field('tag')} dir="auto" hint="May be empty." />
      <Field
        label="Id"
        {...field('id')}
        inputMode="numeric"
        hint="Any whole number that none of your plants has."
      />
      {isElsewhere && <Failure error={error} />}
      <div class="actions">
        <button type="submit" class="primary" aria-disabled={busy}>
          {busy ? 'Adding…' : 'Add'}
        </button>
      </div>
    </form>
  );
};

/** The filter of the log: all of it is in the address of the page. */
import { useState } from 'preact/hooks';
import { Failure } from '../../parts/failure.js';
import { Field } from '../../parts/field.js';
import { changeQuery, place } from '../../router.js';
import { FILTERS, type LogFilter } from './log-filter.js';
import { indexAt } from './tree.js';
import { TYPES } from './words.js';

/** As it is typed: times in the time zone of this browser. */
interface Typed extends LogFilter {
  /** The newest event that is shown: its index, or a position. */
  readonly from: string;
}

const NOTHING: Typed = { owner: '', plant: '', type: '', actor: '', since: '', until: '', from: '' };

/** Positions are wider than any index that is typed. */
const POSITION = /^\d{16,64}$/;

/** Errors in what was typed, by field. */
const faultsOf = ({ owner, plant, from }: Typed): Partial<Record<keyof Typed, string>> => ({
  ...(plant.trim() !== '' && owner === '' && { plant: 'Say whose plant it is, too.' }),
  ...(!/^\s*\d*\s*$/.test(from) && { from: 'This is a number: that of an event, or a position.' }),
});

/** Goes to what was typed. Rejects where a position is none of the log. */
const show = async (typed: Typed): Promise<void> => {
  const begin = typed.from.trim();
  changeQuery({
    ...{ owner: typed.owner, plant: typed.plant.trim(), type: typed.type.trim(), actor: typed.actor },
    ...{ since: instantOf(typed.since), until: instantOf(typed.until), event: undefined },
    from: POSITION.test(begin) ? await indexAt(begin) : begin,
  });
};

export const FilterForm = ({ filter }: { readonly filter: LogFilter }) => {
  const [typed, setTyped] = useState<Typed>({
    ...filter,
    since: localInput(filter.since),
    until: localInput(filter.until),
    from: place.value.query.get('from') ?? '',
  });
  const [error, setError] = useState<unknown>();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (Object.keys(faultsOf(typed)).length === 0)
      show(typed).then(() => {
        setError(undefined);
      }, setError);
  };
  return (
    <details class="card" open={FILTERS.some((name) => filter[name] !== '')}>
      <summary>
        <h2>Filter</h2>
      </summary>
      <form role="search" aria-label="Filter the log" onSubmit={submit} noValidate>
        <Fields typed={typed} onType={setTyped} />
        {error !== undefined && <Failure error={error} />}
        <div class="actions">
          <button type="submit" class="primary">
            Show
          </button>
          <button
            type="button"
            onClick={() => {
              setTyped(NOTHING);
              changeQuery(Object.fromEntries([...FILTERS, 'from'].map((name) => [name, undefined])));
            }}
          >
            Show everything
          </button>
        </div>
      </form>
    </details>
  );
};

const Fields = ({ typed, onType }: { readonly typed: Typed; readonly onType: (typed: Typed) => void }) => {
  const faults = faultsOf(typed);
  const field = (name: keyof Typed) => ({
    name,
    value: typed[name],
    fault: faults[name],
    autocomplete: 'off',
    onInput: (event: InputEvent) => {
      onType({ ...typed, [name]: (event.currentTarget as HTMLInputElement).value });
    },
  });
  return (
    <div class="fields">
      <Field label="Owner" dir="auto" {...field('owner')} />
      <Field label="Plant" inputMode="numeric" hint="Its id." {...field('plant')} />
      <Field label="Type" list="event-types" {...field('type')} />
      <Field label="Actor" dir="auto" hint="Who asked for it." {...field('actor')} />
      <Field label="From" type="datetime-local" step="1" {...field('since')} />
      <Field label="Until" type="datetime-local" step="1" {...field('until')} />
      <Field
        label="Begin at event"
        inputMode="numeric"
        hint="The number of an event, or a position; the newest one without it."
        {...field('from')}
      />
      <datalist id="event-types">
        {TYPES.map((type) => (
          <option key={type} value={type} />
        ))}
      </datalist>
    </div>
  );
};

/** An instant as an input of a local time has it; empty for none. */
const localInput = (instant: string): string => {
  const time = new Date(instant);
  if (Number.isNaN(time.getTime())) return '';
  const shifted = new Date(time.getTime() - time.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
};

/** The instant of a local time, RFC 3339 in UTC; empty for none. */
const instantOf = (local: string): string => {
  const time = new Date(local);
  return Number.isNaN(time.getTime()) ? '' : time.toISOString();
};

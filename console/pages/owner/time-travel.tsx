/** The list as it was: a moment is chosen, and is in the address. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { localOf, Time, utcOf } from '../../parts/time.js';
import { changeQuery } from '../../router.js';

/** Ranges of the slider, in milliseconds. */
const SPANS = [
  ['Last 10 minutes', 600_000],
  ['Last hour', 3_600_000],
  ['Last day', 86_400_000],
  ['Last week', 604_800_000],
  ['Last 30 days', 2_592_000_000],
  ['Last year', 31_536_000_000],
] as const;

const STEPS = 600;

/** Milliseconds without a move of the slider before the list is asked for: the service reads the log for it. */
const REST_MS = 250;

/** A position has digits only; an instant does not. */
const isPosition = (asOf: string): boolean => /^\d+$/.test(asOf);

/** An instant as the field for it takes it: local, without a zone. */
const fieldOf = (time: number): string => {
  const shifted = new Date(time - new Date(time).getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
};

/** Goes to a moment; undefined is now. */
const goTo = (time: number | undefined): void => {
  changeQuery(
    { asOf: time === undefined ? undefined : new Date(time).toISOString(), after: undefined },
    { replace: true },
  );
};

/** Turns to the list as it is at this moment, from where one can go back. */
export const enterPast = (): void => {
  changeQuery({ asOf: new Date().toISOString(), after: undefined });
};

export const TimeTravel = ({ asOf }: { readonly asOf: string }) => {
  const [opened] = useState(Date.now());
  const chosen = isPosition(asOf) ? opened : new Date(asOf).getTime();
  const [time, setTime] = useState(Number.isNaN(chosen) ? opened : chosen);
  const resting = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(
    () => () => {
      clearTimeout(resting.current);
    },
    [],
  );
  const choose = (next: number): void => {
    setTime(next);
    clearTimeout(resting.current);
    resting.current = setTimeout(goTo, REST_MS, next);
  };
  return (
    <section class="past" aria-label="The list as it was">
      <p>
        <strong>The list as it was</strong>{' '}
        {isPosition(asOf) ? (
          <>
            after the event <code>{asOf}</code>
          </>
        ) : (
          <Time at={asOf} />
        )}
      </p>
      <Moment opened={opened} time={time} onChoose={choose} />
    </section>
  );
};

/** Chooses a moment. `opened` is the end of the slider, in milliseconds since 1970, as `time` is. */
const Moment = ({
  opened,
  time,
  onChoose,
}: {
  readonly opened: number;
  readonly time: number;
  readonly onChoose: (time: number) => void;
}) => {
  const needed = SPANS.findIndex(([, length]) => opened - time <= length);
  const [span, setSpan] = useState(needed < 0 ? SPANS.length - 1 : needed);
  const length = SPANS[span]?.[1] ?? 0;
  return (
    <>
      <label class="hidden" for="past-slider">
        Moment
      </label>
      <input
        id="past-slider"
        type="range"
        min={0}
        max={STEPS}
        value={Math.round(STEPS * (1 - (opened - time) / length))}
        aria-valuetext={`${localOf(new Date(time))}, ${utcOf(new Date(time))}`}
        onInput={(event) => {
          onChoose(opened - length * (1 - Number(event.currentTarget.value) / STEPS));
        }}
      />
      <div class="actions">
        <Span span={span} onChoose={setSpan} />
        <label class="hidden" for="past-time">
          Exact local time
        </label>
        <input
          id="past-time"
          type="datetime-local"
          step={1}
          value={fieldOf(time)}
          onChange={(event) => {
            const next = new Date(event.currentTarget.value).getTime();
            if (!Number.isNaN(next)) onChoose(next);
          }}
        />
        <button
          type="button"
          class="primary"
          onClick={() => {
            changeQuery({ asOf: undefined, after: undefined });
          }}
        >
          Back to now
        </button>
      </div>
    </>
  );
};

const Span = ({ span, onChoose }: { readonly span: number; readonly onChoose: (span: number) => void }) => (
  <>
    <label class="hidden" for="past-span">
      How far back
    </label>
    <select
      id="past-span"
      value={span}
      onChange={(event) => {
        onChoose(Number(event.currentTarget.value));
      }}
    >
      {SPANS.map(([title], index) => (
        <option key={title} value={index}>
          {title}
        </option>
      ))}
    </select>
  </>
);

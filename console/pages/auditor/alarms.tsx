/** The alarm of the auditor, explained to whoever reads it. */
import { useEffect, useState } from 'preact/hooks';
import { json } from '../../api.js';
import { Failure } from '../../parts/failure.js';
import { Time } from '../../parts/time.js';
import { isAborted } from '../../problem.js';
import { hrefOf } from '../../router.js';
import { ended } from '../../session.js';

/** The answer of `GET /log/alarm`. */
interface Alarm {
  readonly kind: string;
  readonly index?: number;
  readonly message: string;
  readonly raisedAt: string;
}

const EVERY_MS = 15_000;

/** In a sentence or two, for each kind of alarm. */
const MEANINGS: Readonly<Record<string, string>> = {
  changed:
    'An event is not the one that was signed: someone has changed it, behind the service, after a checkpoint covered it.',
  missing: 'An event that was signed is gone, and those after it have moved up.',
  inserted: 'An event stands in the log that was not there when what is around it was signed.',
  swapped: 'Two events have changed their places.',
  moved: 'Events are not at the positions where they were.',
  shorter: 'The log ends before what was signed: its end was cut off, or an older copy was put in its place.',
  tree: 'What the auditor itself has stored, the tree or a checkpoint, is not what it has signed.',
  contradiction:
    'The log contradicts itself: its index or its stored texts say something else than its events, so that programs could read different things in it.',
  fork: 'The log is not what the same key has signed before: there are two histories.',
};

/** The alarm that stands, or that none does, which is not said where `quiet`. Asked for again as long as it is shown. */
export const Alarms = ({ quiet = false }: { readonly quiet?: boolean }) => {
  const [alarm, setAlarm] = useState<Alarm | null>();
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const closing = new AbortController();
    const ask = (): void => {
      if (document.hidden || ended.peek() !== undefined) return;
      json<{ readonly alarm: Alarm | null }>('log/alarm', { signal: closing.signal }).then(
        (answer) => {
          setAlarm(answer.alarm);
          setError(undefined);
        },
        (failure: unknown) => {
          if (!closing.signal.aborted && !isAborted(failure)) setError(failure);
        },
      );
    };
    ask();
    const asking = setInterval(ask, EVERY_MS);
    return () => {
      clearInterval(asking);
      closing.abort();
    };
  }, []);
  if (error !== undefined) return quiet ? null : <Failure error={error} />;
  if (alarm === undefined || (alarm === null && quiet)) return null;
  if (alarm === null)
    return (
      <p role="status" class="faint">
        No alarm: at its last reading the service found its log as it was signed.
      </p>
    );
  return (
    <section class="failure" role="alert" aria-label="Alarm">
      <h2>The log is not what was signed</h2>
      <p>{MEANINGS[alarm.kind] ?? 'Something is not as it was signed.'}</p>
      <p>
        <bdi>{alarm.message}</bdi>
      </p>
      <p class="small">
        Found <Time at={alarm.raisedAt} />. Nothing is signed until an operator lifts the alarm with{' '}
        <code>plants audit-lift</code>. Keep your checkpoints and bundles: they prove what was there before.
      </p>
      {alarm.index !== undefined && (
        <p>
          <a href={hrefOf('log', { event: alarm.index, from: alarm.index + 20 })}>
            Event {alarm.index} in the log
          </a>
        </p>
      )}
    </section>
  );
};

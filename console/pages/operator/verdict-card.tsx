/** The verdict, in front of everything else. */
import { Name } from '../../parts/name.js';
import { Time } from '../../parts/time.js';
import { type StatusWatch } from './status-watch.js';
import { LiftAlarm } from './lift.js';
import { Command } from './parts.js';
import { isAlarm, verdictOf } from './verdict.js';

export const VerdictCard = ({ watch }: { readonly watch: StatusWatch }) => {
  const status = watch.status.value;
  const reason = watch.live.value?.reason.value;
  const { isCurrent } = watch;
  const trouble = watch.trouble.value ?? (isCurrent ? undefined : reason);
  const { level, headline, findings } = verdictOf(status, isCurrent, trouble);
  return (
    <section class={`outlook ${level}`} aria-label="Verdict">
      <div role="status" aria-live="polite">
        <h2>{headline}</h2>
        {findings.length > 0 && (
          <ul>
            {findings.map(({ text, advice, command }) => (
              <li key={text}>
                <strong>
                  <Name text={text} />
                </strong>
                {advice !== undefined && <p>{advice}</p>}
                {command !== undefined && <Command text={command} />}
                {isAlarm(text) && <LiftAlarm />}
              </li>
            ))}
          </ul>
        )}
      </div>
      {status && status.warnings.length > 0 && (
        <ul class="small" aria-label="Things to know">
          {status.warnings.map((warning) => (
            <li key={warning}>
              <Name text={warning} />
            </li>
          ))}
        </ul>
      )}
      {status && (
        <p class="small faint">
          {isCurrent ? 'Unchanged since' : 'Last known as of'} <Time at={status.at} />
        </p>
      )}
    </section>
  );
};

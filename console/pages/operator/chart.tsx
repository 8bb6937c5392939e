/** A measure over the last quarter of an hour, as a line. */
import { duration, number } from './figures.js';
import { pathsOf, peakOf, type Series, topOf } from './samples.js';

/** `unit` stands behind each number. */
export const Chart = ({
  title,
  unit,
  series,
}: {
  readonly title: string;
  readonly unit: string;
  readonly series: Series;
}) => {
  const peak = peakOf(series);
  const last = series.at(-1);
  const top = topOf(peak?.value ?? 0);
  const { line, area } = pathsOf(series, top);
  const current = last === undefined ? 'not known' : `${number(last)} ${unit}`;
  const most =
    peak && peak.value > 0 && `most ${number(peak.value)} ${unit}, ${duration(peak.secondsAgo)} ago`;
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span> <strong class="number">{current}</strong>
      </figcaption>
      <svg
        viewBox={`0 -4 ${series.length - 1} 108`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}, a line of the last 15 minutes: now ${current}${most ? `, ${most}` : ''}`}
      >
        <path class="grid" d={`M0 0H${series.length}M0 100H${series.length}`} />
        <path class="area" d={area} />
        <path class="line" d={line} />
      </svg>
      <div class="axis small faint number">
        <span>15 min ago</span>
        {most && <span>{most}</span>}
        <span>now</span>
      </div>
      <span class="top small faint number" aria-hidden="true">
        {number(top)}
      </span>
    </figure>
  );
};

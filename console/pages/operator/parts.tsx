/** Small parts of this page. */
import { type ComponentChildren } from 'preact';
import { Name } from '../../parts/name.js';
import { notify } from '../../parts/notices.js';
import { localOf, utcOf } from '../../parts/time.js';
import { duration } from './figures.js';

/** A table with its caption, in a box that scrolls where the window is narrow. */
export const Table = ({
  caption,
  columns,
  children,
}: {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly children: ComponentChildren;
}) => (
  <div class="wide-table" tabIndex={0} role="region" aria-label={caption}>
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);

/** Time since an instant, which is shown on it, local and in UTC. */
export const Ago = ({
  at,
  now,
  suffix = ' ago',
}: {
  readonly at: string;
  readonly now: number;
  readonly suffix?: string;
}) => {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return <Name text={at} />;
  return (
    <time class="number" dateTime={at} title={`${localOf(time)} (${utcOf(time)})`}>
      {duration(Math.max(0, Math.floor((now - time.getTime()) / 1_000)))}
      {suffix}
    </time>
  );
};

const copy = async (text: string): Promise<void> => {
  try {
    await navigator.clipboard.writeText(text);
    notify({ text: 'Copied.' });
  } catch {
    notify({ text: 'This browser does not let the page copy. Select the command instead.', kind: 'failed' });
  }
};

/** A command to run elsewhere. */
export const Command = ({ text }: { readonly text: string }) => (
  <span class="command">
    <code>{text}</code>
    <button type="button" class="link small" aria-label={`Copy ${text}`} onClick={() => void copy(text)}>
      Copy
    </button>
  </span>
);

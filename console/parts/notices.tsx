/** Notices, for eyes and screen readers: one region for the whole console. */
import { signal } from '@preact/signals';

export interface NoticeAction {
  readonly label: string;
  readonly run: () => unknown;
}

export interface Notice {
  /** A name that the text is about: it comes first, and keeps its own direction to itself. */
  readonly subject?: string;
  readonly text: string;
  readonly kind?: 'done' | 'failed';
  /** The notice then stays until it is closed. */
  readonly action?: NoticeAction;
}

/** For a notice that asks nothing. */
const STAYS_MS = 8_000;

/** Older notices give way to new ones. */
const MOST = 4;

interface Shown extends Notice {
  readonly key: number;
}

const shown = signal<readonly Shown[]>([]);
let lastKey = 0;

const close = (key: number): void => {
  shown.value = shown.peek().filter((one) => one.key !== key);
};

/** Says something. Failures and what can be acted on stay until they are closed. */
export const notify = (notice: Notice): void => {
  const key = ++lastKey;
  shown.value = [...shown.peek().slice(1 - MOST), { ...notice, key }];
  if (!notice.action && notice.kind !== 'failed') setTimeout(close, STAYS_MS, key);
};

/** The region that notices are in: always there, so that screen readers tell what comes. */
export const Notices = () => (
  <div class="notices" role="status" aria-live="polite" aria-label="Notices">
    {shown.value.map(({ key, subject, text, kind = 'done', action }) => (
      <div key={key} class={`notice ${kind}`}>
        <span>
          {subject !== undefined && <bdi>{subject}</bdi>} <bdi>{text}</bdi>
        </span>
        {action && (
          <button
            type="button"
            class="link"
            onClick={() => {
              close(key);
              void action.run();
            }}
          >
            {action.label}
          </button>
        )}
        <button
          type="button"
          class="icon"
          aria-label="Close this notice"
          onClick={() => {
            close(key);
          }}
        >
          ×
        </button>
      </div>
    ))}
  </div>
);

/** Lists and log compared: what was found last, and now. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { newKey, sendOnce } from '../../api.js';
import { EventStreamParser } from '../../event-stream.js';
import { Failure } from '../../parts/failure.js';
import { Name } from '../../parts/name.js';
import { Action } from './ask.js';
import { counted, number } from './figures.js';

/** As POST /operations/verifications tells it (docs/api.md, "Operations"). */
interface Progress {
  readonly phase: string;
  readonly unit: string;
  readonly done: number;
  readonly total: number | null;
}

interface Difference {
  readonly owner: string | null;
  readonly id: number;
}

interface Verification {
  readonly plants: number;
  readonly owners: number;
  readonly differing: number;
  readonly unreadable: number;
  readonly erasing: boolean;
  readonly differences: readonly (Difference & {
    readonly expected: string | null;
    readonly found: string | null;
  })[];
  readonly state: {
    readonly events: number;
    readonly differing: number;
    readonly differences: readonly (Difference & { readonly what: string })[];
  } | null;
}

/** Compares, and tells how far that is. Throws what `sendOnce` throws, and Error where it fails later, or is cut off. */
const compare = async (tell: (progress: Progress) => void, signal: AbortSignal): Promise<Verification> => {
  const response = await sendOnce('operations/verifications', {
    ...{ method: 'POST', idempotencyKey: newKey(), signal },
    headers: { accept: 'text/event-stream' },
  });
  const parser = new EventStreamParser();
  const reader = (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream()).getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read())
    for (const { type, data = '' } of parser.push(read.value)) {
      if (type === 'outcome') return JSON.parse(data) as Verification;
      if (type === 'progress') tell(JSON.parse(data) as Progress);
      if (type === 'problem') throw new Error((JSON.parse(data) as { readonly detail: string }).detail);
    }
  throw new Error('The connection ended before the outcome. Compare again.');
};

type Comparison =
  | { readonly progress: Progress | undefined }
  | { readonly found: Verification }
  | { readonly error: unknown };

export const CompareNow = () => {
  const [comparison, setComparison] = useState<Comparison>();
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(
    () => () => {
      running.current?.abort();
    },
    [],
  );
  const begin = async (): Promise<void> => {
    const own = new AbortController();
    running.current = own;
    setComparison({ progress: undefined });
    try {
      const found = await compare((progress) => {
        setComparison({ progress });
      }, own.signal);
      setComparison({ found });
    } catch (error) {
      if (!own.signal.aborted) setComparison({ error });
    }
  };
  const isRunning = comparison !== undefined && 'progress' in comparison;
  return (
    <>
      {isRunning && <Running progress={comparison.progress} />}
      {comparison && 'found' in comparison && <Found found={comparison.found} />}
      {comparison && 'error' in comparison && <Failure error={comparison.error} />}
      <div class="actions">
        {isRunning ? (
          <Action
            text="Stop comparing"
            onClick={() => {
              running.current?.abort();
              setComparison(undefined);
            }}
          />
        ) : (
          <Action text="Compare now" onClick={() => void begin()} />
        )}
      </div>
    </>
  );
};

const Running = ({ progress }: { readonly progress: Progress | undefined }) => (
  <>
    <p class="number">
      {progress
        ? `${progress.phase}: ${number(progress.done)}${progress.total === null ? '' : ` of ${number(progress.total)}`} ${progress.unit}`
        : 'Beginning…'}
    </p>
    <progress
      aria-label="Progress of the comparison"
      {...(progress?.total && { value: progress.done, max: progress.total })}
    />
  </>
);

const Found = ({ found }: { readonly found: Verification }) => {
  const { plants, owners, differing, unreadable, erasing, differences, state } = found;
  const others = state?.differences ?? [];
  return (
    <div role="status">
      <p>
        {counted(plants, 'plant')} of {counted(owners, 'owner')} compared:{' '}
        {differing === 0 ? 'the lists say what the log says' : `${counted(differing, 'plant')} differ`}
        {unreadable > 0 &&
          `; ${counted(unreadable, 'owner')} hold events that this version cannot read`}.{' '}
        {state === null
          ? 'No signed state could be compared.'
          : state.differing === 0
            ? `The log comes to the state that was signed with ${counted(state.events, 'event')}.`
            : `${counted(state.differing, 'plant')} differ from the state that was signed.`}
      </p>
      {erasing && differing > 0 && (
        <p class="hint">An owner is being erased, and that may be why: compare again once it has ended.</p>
      )}
      {differences.length + others.length > 0 && (
        <ul>
          {differences.map(({ owner, id, expected, found }) => (
            <li key={`${owner ?? ''} ${id}`}>
              <Name text={owner ?? 'an owner'} />, id {id}: expected <Name text={expected ?? 'none'} />, found{' '}
              <Name text={found ?? 'none'} />
            </li>
          ))}
          {others.map(({ owner, id, what }) => (
            <li key={`signed ${owner ?? ''} ${id}`}>
              <Name text={owner ?? 'an owner'} />, id {id}: <Name text={what} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
};

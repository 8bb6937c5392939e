/** Past operations: by whom, when, why, and the result. */
import { useState } from 'preact/hooks';
import { nextPage, send } from '../../api.js';
import { Failure } from '../../parts/failure.js';
import { Name } from '../../parts/name.js';
import { Time } from '../../parts/time.js';
import { useRead } from '../../parts/use-read.js';
import { Table } from './parts.js';
import { type PastOperation } from './status.js';

/** Operations of one request. */
const PAGE_SIZE = 20;

const WORDS: Readonly<Record<string, string>> = {
  rebuild: 'Rebuild',
  cancel: 'Cancelling of a rebuild',
  rollback: 'Rollback',
  skip: 'Skip of an event',
  erasure: 'Erasure',
  unreadable: 'Not readable by this version',
};

interface Shown {
  readonly operations: readonly PastOperation[];
  /** Cursor of older ones; undefined where there are none. */
  readonly before: string | undefined;
}

const read = async (before: string | undefined, signal: AbortSignal): Promise<Shown> => {
  const response = await send('operations', { query: { limit: PAGE_SIZE, before }, signal });
  return {
    operations: (await response.json()) as PastOperation[],
    before: nextPage(response)?.get('before') ?? undefined,
  };
};

/** `changed` is another one whenever the list may be another one. */
export const Past = ({ changed }: { readonly changed: string }) => {
  /** The page that is shown: where it begins, and `undefined` for the newest. */
  const [before, setBefore] = useState<string>();
  const { shown, error, retry } = useRead((signal) => read(before, signal), [before, changed]);
  return (
    <section class="stack whole" aria-label="Past operations" aria-busy={shown === undefined}>
      {error !== undefined && <Failure error={error} onRetry={retry} />}
      {shown && (
        <Table caption="Operations, the newest first" columns={['When', 'What', 'By', 'Why', 'Outcome']}>
          {shown.operations.map((operation) => (
            <Row key={operation.position} operation={operation} />
          ))}
        </Table>
      )}
      {shown?.operations.length === 0 && <p class="faint">Nobody has asked for anything yet.</p>}
      <nav class="actions" aria-label="Pages of operations">
        {before !== undefined && (
          <button
            type="button"
            onClick={() => {
              setBefore(undefined);
            }}
          >
            Newest
          </button>
        )}
        {shown?.before !== undefined && (
          <button
            type="button"
            onClick={() => {
              setBefore(shown.before);
            }}
          >
            Older
          </button>
        )}
      </nav>
    </section>
  );
};

const Row = ({
  operation: { operation, about, at, by, client, reason, outcome, outcomeAt, detail },
}: {
  readonly operation: PastOperation;
}) => (
  <tr>
    <td>{at === null ? 'not known' : <Time at={at} />}</td>
    <td>
      {WORDS[operation] ?? operation}
      <div class="mono faint">
        <Name text={about} />
      </div>
    </td>
    <td>
      <Name text={by} of="not known" />
      {client !== null && (
        <div class="small faint">
          with <Name text={client} />
        </div>
      )}
    </td>
    <td>{reason === null ? '–' : <Name text={reason} />}</td>
    <td>
      <span class={`state-of ${outcome === 'cancelled' ? 'bad' : outcome === 'in_progress' ? 'busy' : ''}`}>
        {outcome?.replace('_', ' ') ?? 'not known'}
      </span>
      {outcome !== 'in_progress' && outcomeAt !== null && outcomeAt !== at && (
        <span class="small">
          {' '}
          <Time at={outcomeAt} />
        </span>
      )}
      {detail !== null && (
        <div class="small faint">
          <Name text={detail} />
        </div>
      )}
    </td>
  </tr>
);

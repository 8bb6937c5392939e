/** One event of the log, and the proof that it is in it, verified here. */
import { Fragment } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Failure } from '../../parts/failure.js';
import { Name } from '../../parts/name.js';
import { saveFile } from '../../parts/save.js';
import { Time } from '../../parts/time.js';
import { Verdict } from '../../parts/verdict.js';
import { isAborted } from '../../problem.js';
import { textOf } from '../../../src/transparency/bytes.js';
import { type LogEvent } from '../../../src/transparency/event.js';
import { type EntryProof, type ProvenEntry, verifyEntry } from '../../../src/transparency/receipt.js';
import { type Refusal } from '../../../src/transparency/refused.js';
import { changeQuery, hrefOf } from '../../router.js';
import { explained, trust, trustNow } from '../../trust.js';
import { decisionOf, ownerOf } from './log-filter.js';
import { BUNDLE_EVENTS, inclusionOf, lastCheckpoint, leavesOf, sizeOf } from './tree.js';
import { subjectOf, wordOf } from './words.js';

interface Shown {
  readonly leaf: string;
  readonly proof: EntryProof;
  readonly result: ProvenEntry | Refusal;
}

/** Asks for an event and its proof, and verifies it. Throws where that is not possible; a proof that does not hold is a result. */
const read = async (index: number, signal: AbortSignal): Promise<Shown> => {
  const checkpoint = await lastCheckpoint();
  const size = sizeOf(checkpoint) ?? 0;
  if (index >= size) throw new Error(`The last checkpoint is of ${size} events, and does not hold this one.`);
  const bundle = Math.floor(index / BUNDLE_EVENTS);
  const [leaves, proof] = await Promise.all([
    leavesOf(bundle, size, signal),
    inclusionOf(index, checkpoint, signal),
  ]);
  const leaf = leaves[index % BUNDLE_EVENTS] ?? new Uint8Array();
  // Cosignatures are shown, and none is required: the newest checkpoint may still wait for its witnesses.
  const result = await verifyEntry(leaf, proof, { ...(await trustNow()), required: 0 });
  return { leaf: textOf(leaf) ?? '', proof, result };
};

export const EventPanel = ({ index }: { readonly index: number }) => {
  const [shown, setShown] = useState<Shown>();
  const [error, setError] = useState<unknown>();
  const [tries, setTries] = useState(0);
  const trusted = trust.value;
  useEffect(() => {
    const reading = new AbortController();
    read(index, reading.signal).then(
      (next) => {
        if (reading.signal.aborted) return;
        setShown(next);
        setError(undefined);
      },
      (failure: unknown) => {
        if (!reading.signal.aborted && !isAborted(failure)) setError(explained(failure));
      },
    );
    return () => {
      reading.abort();
    };
  }, [index, tries, trusted]);
  return (
    <section
      class="card"
      aria-label={`Event ${index}`}
      aria-busy={shown === undefined && error === undefined}
    >
      <header>
        <h2>Event {index}</h2>
        <button
          type="button"
          class="icon"
          aria-label="Close this event"
          onClick={() => {
            changeQuery({ event: undefined });
          }}
        >
          ×
        </button>
      </header>
      {error !== undefined && (
        <Failure
          error={error}
          onRetry={() => {
            setTries(tries + 1);
          }}
        />
      )}
      {error === undefined && shown && <Content index={index} shown={shown} />}
    </section>
  );
};

const Content = ({
  index,
  shown: { leaf, proof, result },
}: {
  readonly index: number;
  readonly shown: Shown;
}) => (
  <>
    {result.verdict !== 'refused' && <Facts event={result.event} />}
    <Verdict result={result}>
      {result.verdict !== 'refused' && result.isErased
        ? `Something was event ${index} of the log, and was erased with its owner; its hash is still there.`
        : `This is event ${index} of the log, exactly so.`}
    </Verdict>
    {result.verdict === 'refused' && (
      <p>
        The service shows an event that is not the one which it has signed. Keep what you see, and ask those
        who run it: an event of the log was altered, or the service does not tell the truth.
      </p>
    )}
    {result.verdict !== 'refused' && (
      <dl class="facts">
        <dt>Leaf hash</dt>
        <dd>
          <code>{result.hash}</code>
        </dd>
      </dl>
    )}
    <details>
      <summary>All that the log holds of it</summary>
      <pre dir="ltr" tabIndex={0} aria-label="The event as JSON">
        {result.verdict === 'refused' ? leaf : JSON.stringify(result.event, undefined, 2)}
      </pre>
    </details>
    {result.verdict !== 'refused' && !result.isErased && (
      <div class="actions">
        <button
          type="button"
          onClick={() => {
            const { proof: hashes, checkpoint } = proof;
            const rest = JSON.stringify({ index, proof: hashes, checkpoint });
            saveFile(`event-${index}.json`, `{"event":${leaf},${rest.slice(1)}`);
          }}
        >
          Save as a receipt
        </button>
        <Neighbours event={result.event} />
      </div>
    )}
  </>
);

/** Leads to the other events of the same plant. */
const Neighbours = ({ event: { stream } }: { readonly event: LogEvent }) => {
  const owner = ownerOf(stream);
  const [, plant] = /^plant-[^/]*\/(-?\d+)$/.exec(stream) ?? [];
  if (owner === undefined || plant === undefined) return null;
  return (
    <a class="button" href={hrefOf('log', { owner, plant })}>
      All of this plant
    </a>
  );
};

const Facts = ({ event }: { readonly event: LogEvent }) => {
  const { at, actor, client } = decisionOf(event);
  const owner = ownerOf(event.stream);
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['Owner', owner],
    ['Actor', actor],
    ['Client', client],
    ['Stream', event.stream],
    ['Revision', String(event.revision)],
    ['Id', event.id],
  ];
  return (
    <>
      <p>
        <strong>{wordOf(event.type)}</strong> <Name text={subjectOf(event)} />
      </p>
      <dl class="facts">
        {at !== undefined && (
          <>
            <dt>Decided</dt>
            <dd>
              <Time at={at} />
            </dd>
          </>
        )}
        {rows.map(
          ([label, value]) =>
            value !== undefined && (
              <Fragment key={label}>
                <dt>{label}</dt>
                <dd>
                  <Name text={value} />
                </dd>
              </Fragment>
            ),
        )}
      </dl>
    </>
  );
};

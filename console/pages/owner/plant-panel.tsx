/** One plant, and all that has happened to it. */
import { useEffect, useRef } from 'preact/hooks';
import { json, nextPage, send } from '../../api.js';
import { Failure } from '../../parts/failure.js';
import { Name } from '../../parts/name.js';
import { Time } from '../../parts/time.js';
import { useRead } from '../../parts/use-read.js';
import { ApiProblem } from '../../problem.js';
import { changeQuery, hrefOf, place } from '../../router.js';
import { allows } from '../../session.js';
import { deletePlant } from './changes.js';
import { type Plant, type PlantList } from './plant-list.js';

/** See docs/api.md, "An event". */
interface HistoryEvent {
  readonly id: string;
  readonly type: string;
  readonly time?: string;
  readonly position: string;
  readonly actor?: string;
  readonly clientid?: string;
  readonly data: unknown;
}

/** Events of one request: the most that the API gives. */
const PAGE_SIZE = 1_000;

interface Shown {
  /** Undefined where it is not there now. */
  readonly plant: Plant | undefined;
  /** The newest first. */
  readonly events: readonly HistoryEvent[];
  /** Link to the rest of the history. */
  readonly next: string | undefined;
}

/** Undefined for an answer that says that there is no such plant. */
const unlessMissing = <T,>(answer: Promise<T>): Promise<T | undefined> =>
  answer.catch((error: unknown) => {
    if (error instanceof ApiProblem && error.status === 404) return undefined;
    throw error;
  });

const read = async (id: string, signal: AbortSignal): Promise<Shown> => {
  const [plant, history] = await Promise.all([
    unlessMissing(json<Omit<Plant, 'id'>>(`plants/${id}`, { signal })),
    unlessMissing(send(`plants/${id}/history`, { query: { limit: PAGE_SIZE }, signal })),
  ]);
  const events = history ? ((await history.json()) as HistoryEvent[]) : [];
  return {
    plant: plant && { ...plant, id: Number(id) },
    events: events.toReversed(),
    next: (history && nextPage(history)?.get('after')) ?? undefined,
  };
};

const WORDS: Readonly<Record<string, string>> = { PlantCreated: 'Added', PlantDeleted: 'Deleted' };

/** A type such as plants.PlantCreated.v1 in a word. */
const wordOf = (type: string): string => WORDS[type.split('.')[1] ?? ''] ?? type;

export const PlantPanel = ({ list, id }: { readonly list: PlantList; readonly id: string }) => {
  const change = list.lastChange.value;
  const changedId = change?.type === 'added' ? change.plant.id : change?.id;
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a narrow screen the panel is above the list: scroll to it, since the plant may be far below.
    panel.current?.scrollIntoView({ block: 'nearest' });
  }, [id]);
  const changedAt = String(changedId) === id ? change?.position : undefined;
  const { shown, error, retry } = useRead((signal) => read(id, signal), [id, changedAt]);
  return (
    <section
      ref={panel}
      class="card plant"
      aria-label={`Plant ${id}`}
      aria-busy={shown === undefined && error === undefined}
    >
      <header>
        <h2>{shown?.plant ? <Name text={shown.plant.name} /> : `Plant ${id}`}</h2>
        <button
          type="button"
          class="icon"
          aria-label="Close this plant"
          onClick={() => {
            changeQuery({ plant: undefined });
          }}
        >
          ×
        </button>
      </header>
      {error !== undefined && <Failure error={error} onRetry={retry} />}
      {shown && <Facts shown={shown} id={id} />}
      {shown?.plant && allows('plants:write') && <Delete list={list} plant={shown.plant} />}
      {shown && shown.events.length > 0 && <Timeline shown={shown} />}
    </section>
  );
};

const Facts = ({ shown: { plant, events }, id }: { readonly shown: Shown; readonly id: string }) => {
  if (!plant)
    return (
      <p>
        {events.length > 0 ? 'This plant is not in your list any more.' : `You have never had a plant ${id}.`}
      </p>
    );
  return (
    <dl class="facts">
      <dt>Id</dt>
      <dd class="mono">{id}</dd>
      <dt>Tag</dt>
      <dd>
        <Name text={plant.tag} of="none" />
      </dd>
    </dl>
  );
};

const Delete = ({ list, plant }: { readonly list: PlantList; readonly plant: Plant }) => (
  <div class="actions">
    <button type="button" class="danger" onClick={() => void deletePlant(list, plant)}>
      Delete
    </button>
  </div>
);

const Timeline = ({ shown: { events, next } }: { readonly shown: Shown }) => (
  <>
    <h3>History</h3>
    {next !== undefined && (
      <p class="hint">This is the beginning of a long history: its first {events.length} events.</p>
    )}
    <ol class="timeline" reversed>
      {events.map((event) => (
        <Step key={event.id} event={event} />
      ))}
    </ol>
  </>
);

const Step = ({
  event: { type, time, actor, clientid, data, position },
}: {
  readonly event: HistoryEvent;
}) => {
  const { name, tag } = (data ?? {}) as Partial<Plant>;
  const word = wordOf(type);
  return (
    <li class={word === 'Deleted' ? 'gone' : ''}>
      <strong>{word}</strong>
      {name !== undefined && (
        <>
          {' '}
          as <Name text={name} />
          {tag !== undefined && tag !== '' && (
            <>
              {' '}
              <span class="tag">
                <Name text={tag} />
              </span>
            </>
          )}
        </>
      )}
      <div class="small">{time !== undefined && <Time at={time} />}</div>
      <div class="small faint">
        {actor !== undefined && (
          <>
            by <Name text={actor} />
          </>
        )}
        {clientid !== undefined && (
          <>
            {' '}
            with <Name text={clientid} />
          </>
        )}{' '}
        <a
          href={hrefOf('plants', {
            ...Object.fromEntries(place.value.query),
            after: undefined,
            asOf: position,
          })}
        >
          The list then
        </a>
      </div>
    </li>
  );
};

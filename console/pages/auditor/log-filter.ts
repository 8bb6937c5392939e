/** Filters of the log's events: those of `GET /audit/events`, applied here to the leaves of the tree. */
import { type LogEvent } from '../../../src/transparency/event.js';
import { isObject } from '../../../src/transparency/json.js';
import { encodeOwner } from '../../../src/transparency/state.js';

/** The names of the parameters in the address of the page. */
export const FILTERS = ['owner', 'plant', 'type', 'actor', 'since', 'until'] as const;

/** As it stands in the address: empty texts let everything through; times are RFC 3339. `plant` needs an owner. */
export type LogFilter = Readonly<Record<(typeof FILTERS)[number], string>>;

/** The filter of an address. */
export const filterOf = (query: URLSearchParams): LogFilter => {
  const of = (name: string): string => query.get(name) ?? '';
  return {
    ...{ owner: of('owner'), plant: of('plant'), type: of('type') },
    ...{ actor: of('actor'), since: of('since'), until: of('until') },
  };
};

/** True if the filter lets everything through. */
export const isEmpty = (filter: LogFilter): boolean => FILTERS.every((name) => filter[name] === '');

/** Query of the live stream: times do not matter for what is still to come. */
export const liveQuery = ({
  owner,
  plant,
  type,
  actor,
}: LogFilter): Readonly<Record<string, string | undefined>> => ({
  ...{ owner, type, actor },
  plant: owner === '' ? undefined : plant,
  after: 'head',
});

/** When an event was decided, who asked for it, and by which version of its type it is written, as far as it says. */
export const decisionOf = ({ metadata }: Pick<LogEvent, 'metadata'>) => {
  const { decidedAt, actor, schemaVersion } = isObject(metadata) ? metadata : {};
  const { sub, clientId } = isObject(actor) ? actor : {};
  return {
    at: typeof decidedAt === 'string' ? decidedAt : undefined,
    actor: typeof sub === 'string' ? sub : undefined,
    client: typeof clientId === 'string' ? clientId : undefined,
    version: typeof schemaVersion === 'number' ? schemaVersion : undefined,
  };
};

/** Owner of the plant or request of a stream; undefined where its name does not tell. */
export const ownerOf = (stream: string): string | undefined => {
  const [, encoded] = /^(?:plant|request)-([^/]*)\//.exec(stream) ?? [];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
};

/** Tells which events the filter lets through. An event that does not say when it was decided may have been at any time. */
export const matcherOf = (filter: LogFilter): ((event: LogEvent) => boolean) => {
  const { owner, plant, type, actor, since, until } = filter;
  const streams = ['plant-', 'request-'].map((kind) => `${kind}${encodeOwner(owner)}/`);
  const [from, to] = [Date.parse(since), Date.parse(until)];
  return (event) => {
    if (owner !== '' && plant !== '' && event.stream !== `${streams[0] ?? ''}${plant}`) return false;
    if (owner !== '' && !streams.some((stream) => event.stream.startsWith(stream))) return false;
    const { at, actor: by, version } = decisionOf(event);
    if (type !== '' && event.type !== type && `plants.${event.type}.v${version ?? ''}` !== type) return false;
    if (actor !== '' && by !== actor) return false;
    const time = Date.parse(at ?? '');
    // Comparing with NaN is false: without a bound, or without a time, nothing is left out.
    return !(time < from) && !(time > to);
  };
};

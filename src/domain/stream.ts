/** Every stream of plants begins so. Subscriptions filter by it. */
export const PLANT_STREAMS = 'plant-';

/** Every stream of requests that were named by an Idempotency-Key begins so. */
export const REQUEST_STREAMS = 'request-';

/** Every stream of operators begins so. */
export const OPERATION_STREAMS = 'operation-';

/** Everything that happened to rebuilds, in order. */
export const REBUILDS_STREAM = `${OPERATION_STREAMS}rebuilds`;

/** Every event that was skipped. */
export const SKIPS_STREAM = `${OPERATION_STREAMS}skips`;

/** Checkpoints that auditors have signed, as far as they are recorded in the log itself. */
export const AUDIT_STREAM = `${OPERATION_STREAMS}audit`;

/** Everything that happened to erasures of owners, in order. No event of it names an owner. */
export const ERASURES_STREAM = `${OPERATION_STREAMS}erasures`;

/** Every stream that says whom an erasure is about begins so. It is erased with the owner. */
export const ERASURE_STREAMS = 'erasure-';

/** Every stream of erased events begins so: nothing is left of them but the hashes of their leaves. */
export const ERASED_STREAMS = 'erased-';

/** Every stream of this service begins with one of these; others in the same store belong to other programs. */
export const OUR_STREAMS: readonly string[] = [
  PLANT_STREAMS,
  REQUEST_STREAMS,
  OPERATION_STREAMS,
  ERASURE_STREAMS,
  ERASED_STREAMS,
];

/**
 * An owner as it stands in names of streams and keys of stores: ASCII, without `/`, different for different
 * owners, and readable where the owner is. Any string has one: what UTF-8 cannot carry (a lone surrogate)
 * becomes `%u` and four hexadecimal digits, which percent-encoding never yields.
 */
export const encodeOwner = (owner: string): string =>
  // Most are plain; this is asked for every event and every list.
  PLAIN.test(owner) ? owner : encodeSpecials(owner);

const PLAIN = /^[A-Za-z0-9_.~-]*$/;

/** Character by character it takes ten times as long, and most owners have something special: `@`, `|`, a space. */
const encodeSpecials = (owner: string): string => {
  if (!owner.isWellFormed()) return Array.from(owner, encodeCharacter).join('');
  return encodeURIComponent(owner).replace(/[!'()*]/g, (mark) => `%${hexadecimal(mark)}`); // it leaves these as they are
};

const encodeCharacter = (character: string): string =>
  character.isWellFormed() ? encodeOwner(character) : `%u${hexadecimal(character)}`;

const hexadecimal = (character: string): string => character.charCodeAt(0).toString(16).toUpperCase();

/** The owner that `encodeOwner` encoded, or undefined where `encoded` is none of its results. */
export const decodeOwner = (encoded: string): string | undefined => {
  try {
    const owner = encoded
      .split(/(%u[0-9A-F]{4})/)
      .map((part) =>
        part.startsWith('%u')
          ? String.fromCharCode(Number.parseInt(part.slice(2), 16))
          : decodeURIComponent(part),
      )
      .join('');
    return encodeOwner(owner) === encoded ? owner : undefined;
  } catch {
    return undefined; // decodeURIComponent refuses what is no percent-encoded UTF-8
  }
};

/** The stream of one plant of one owner. */
export const plantStream = (owner: string, id: number): string =>
  `${PLANT_STREAMS}${encodeOwner(owner)}/${id}`;

/** The stream of one named request; `keyHash` is a hash of its key, in hexadecimal digits. */
export const requestStream = (owner: string, keyHash: string): string =>
  `${REQUEST_STREAMS}${encodeOwner(owner)}/${keyHash}`;

/**
 * The owner whose events a stream of plants or requests holds, also where the rest of its name is not one that we give;
 * undefined where the name does not tell an owner.
 */
export const ownerOfStream = (stream: string): string | undefined => {
  const kind = [PLANT_STREAMS, REQUEST_STREAMS].find((prefix) => stream.startsWith(prefix));
  const end = stream.indexOf('/');
  return kind === undefined || end === -1 ? undefined : decodeOwner(stream.slice(kind.length, end));
};

/** The stream that says whom an erasure is about. */
export const erasureStream = (erasure: string): string => `${ERASURE_STREAMS}${erasure}`;

/** The stream of the events that an erasure has erased, in log order. */
export const erasedStream = (erasure: string): string => `${ERASED_STREAMS}${erasure}`;

/** The prefixes of the names of all streams of an owner. */
export const streamsOf = (owner: string): string[] =>
  [PLANT_STREAMS, REQUEST_STREAMS].map((kind) => `${kind}${encodeOwner(owner)}/`);

/** True if a stream holds plants or requests of an owner, by the beginning of its name. */
export const ownedBy = (owner: string): ((stream: string) => boolean) => {
  const prefixes = streamsOf(owner);
  return (stream) => prefixes.some((prefix) => stream.startsWith(prefix));
};

/** The owner and id of a stream's plant; undefined where `plantStream` does not give that name. */
export const parsePlantStream = (stream: string): { owner: string; id: number } | undefined => {
  const [encoded, digits, ...more] = stream.slice(PLANT_STREAMS.length).split('/');
  if (!stream.startsWith(PLANT_STREAMS) || encoded === undefined || digits === undefined || more.length > 0)
    return undefined;
  const owner = decodeOwner(encoded);
  const id = Number(digits);
  if (owner === undefined || !Number.isSafeInteger(id) || String(id) !== digits) return undefined;
  return { owner, id };
};

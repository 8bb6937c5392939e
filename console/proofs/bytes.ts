/** Bytes of their own, not a view of memory that another thread may change: what Web Crypto takes. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** A text as UTF-8. */
export const utf8 = (text: string): Bytes => Uint8Array.from(new TextEncoder().encode(text));

/** The text of UTF-8 bytes, a byte order mark included; undefined for bytes that are none. */
export const textOf = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
};

/** These bytes, one after the other. */
export const concat = (...parts: readonly Uint8Array[]): Bytes => {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

/** Negative, 0 or positive: the order of two byte strings, byte by byte; the shorter of two that begin alike is first. */
export const compare = (one: Uint8Array, other: Uint8Array): number => {
  const common = Math.min(one.length, other.length);
  for (let at = 0; at < common; at++) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
};

/** Whether these are the same bytes. */
export const isSame = (one: Uint8Array, other: Uint8Array): boolean => compare(one, other) === 0;

/** Standard base64, with padding. */
export const toBase64 = (bytes: Uint8Array): string => {
  let characters = '';
  for (const byte of bytes) characters += String.fromCharCode(byte);
  return btoa(characters);
};

/** The bytes of standard base64 as an encoder writes it, or undefined for any other text, and for none. */
export const fromBase64 = (encoded: string): Bytes | undefined => {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return undefined; // atob would allow white space
  try {
    const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
    return toBase64(bytes) === encoded ? bytes : undefined;
  } catch {
    return undefined;
  }
};

/** Hexadecimal digits, two for each byte. */
export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

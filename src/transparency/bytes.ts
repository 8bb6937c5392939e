const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A text as UTF-8. */
export const utf8 = (text: string): Uint8Array => encoder.encode(text);

/** The text of UTF-8 bytes, a byte order mark included; undefined for bytes that are none. */
export const textOf = (bytes: Uint8Array): string | undefined => {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
};

/** These bytes, one after the other. */
export const concat = (parts: readonly Uint8Array[]): Uint8Array => {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

/** 8 bytes, the most significant one first. */
export const uint64 = (value: bigint): Uint8Array => {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value);
  return bytes;
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

export const isSame = (one: Uint8Array, other: Uint8Array): boolean => compare(one, other) === 0;

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const NO_VALUE = 64;
const values = new Uint8Array(128).fill(NO_VALUE);
for (let value = 0; value < BASE64.length; value++) values[BASE64.charCodeAt(value)] = value;

/** Standard base64, with padding. */
export const toBase64 = (bytes: Uint8Array): string => {
  let text = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const three = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    for (let digit = 0; digit < 4; digit++)
      text += at + digit > bytes.length ? '=' : BASE64.charAt((three >>> (18 - 6 * digit)) & 63);
  }
  return text;
};

/** The bytes of standard base64 as an encoder writes it, or undefined for any other text, and for none. */
export const fromBase64 = (encoded: string): Uint8Array | undefined => {
  if (encoded === '' || encoded.length % 4 !== 0) return undefined;
  const padding = encoded.endsWith('==') ? 2 : encoded.endsWith('=') ? 1 : 0;
  const bytes = new Uint8Array((encoded.length / 4) * 3 - padding);
  let [held, bits, at] = [0, 0, 0];
  for (let digit = 0; digit < encoded.length - padding; digit++) {
    const value = values[encoded.charCodeAt(digit)] ?? NO_VALUE;
    if (value === NO_VALUE) return undefined;
    held = ((held << 6) | value) & 0xffff;
    bits += 6;
    if (bits >= 8) bytes[at++] = held >>> (bits -= 8);
  }
  return (held & ((1 << bits) - 1)) === 0 ? bytes : undefined; // an encoder leaves no bits of the last digit set
};

/** A string with a character for each byte: as keys of a Map, in the order of the bytes. */
export const toCharacters = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

/** The bytes of such a string. */
export const fromCharacters = (characters: string): Uint8Array => {
  const bytes = new Uint8Array(characters.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = characters.charCodeAt(at);
  return bytes;
};

/** Hexadecimal digits, two for each byte. */
export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** The bytes of hexadecimal digits. */
export const fromHex = (digits: string): Uint8Array =>
  Uint8Array.from(digits.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));

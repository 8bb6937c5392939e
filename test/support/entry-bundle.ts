/** The entries of an entry bundle of C2SP tlog-tiles: each behind its length in two bytes, big-endian. */
export const entriesOf = (bundle: Uint8Array): Buffer[] => {
  const bytes = Buffer.from(bundle);
  const entries: Buffer[] = [];
  for (let end = 0; end < bytes.length;) {
    const start = end + 2;
    end = start + bytes.readUInt16BE(end);
    if (end > bytes.length) throw new Error(`entry ${entries.length} of the bundle is cut off`);
    entries.push(bytes.subarray(start, end));
  }
  return entries;
};

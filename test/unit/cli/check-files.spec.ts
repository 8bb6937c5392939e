import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { BundleRefused } from '../../../src/transparency/bundle-format.js';
import { bytesIn, CheckFailed, readWhole } from '../../../src/cli/check-files.js';
import { all } from '../../support/log-events.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const folder = temporaryFolder();
const file = join(folder, 'some');
const text = Array.from({ length: 20_000 }, (_, n) => `line ${n * 7919}\n`).join('');
const packed = gzipSync(text);

/** Writes these parts to a file, and gives the text that is read from it. */
const read = async (...parts: (string | Uint8Array)[]): Promise<string> => {
  writeFileSync(file, Buffer.concat(parts.map((part) => Buffer.from(part))));
  return Buffer.concat(await all(bytesIn(file))).toString('utf8');
};

describe('the bytes of a bundle', () => {
  it.each<[string, (string | Uint8Array)[], string]>([
    ['as they are', [text], text],
    ['fewer than tell what they are', ['x'], 'x'],
    ['none', [], ''],
    ['packed by gzip', [packed], text],
    ['packed in parts', [packed, packed], text + text],
    ['padded with zeros', [packed, Buffer.alloc(300_000)], text],
  ])('come %s', async (_, parts, whole) => {
    expect(await read(...parts)).toBe(whole);
  });

  it.each<[string, (string | Uint8Array)[]]>([
    ['are cut off', [packed.subarray(0, -1)]],
    ['are cut off in their middle', [packed.subarray(0, packed.length / 2)]],
    ['are nothing but a beginning', [packed.subarray(0, 3)]],
    ['are followed by something', [packed, 'something']],
    ['are followed by something behind zeros', [packed, Buffer.alloc(10), 'something']],
    ['are followed by something far behind', [packed, Buffer.alloc(300_000), 'something']],
    ['have another checksum', [packed.subarray(0, -8), Buffer.alloc(8)]],
  ])('are refused where they %s', async (_, parts) => {
    await expect(read(...parts)).rejects.toThrow(BundleRefused);
  });

  it('are refused, in one line, where they cannot be read', async () => {
    await expect(all(bytesIn(folder))).rejects.toThrow(`${folder} cannot be read (read EISDIR)`);
    await expect(readWhole(folder)).rejects.toThrow(`${folder} cannot be read (read EISDIR)`);
    const none = join(folder, 'none');
    await expect(all(bytesIn(none))).rejects.toThrow(CheckFailed);
  });

  it('may be given up early', async () => {
    writeFileSync(file, gzipSync(Buffer.alloc(50_000_000)));
    for await (const bytes of bytesIn(file)) {
      expect(bytes.length).toBeGreaterThan(0);
      break;
    }
  });

  it('of a checkpoint are not more than any checkpoint has', async () => {
    writeFileSync(file, Buffer.alloc(3_000_000));
    expect((await readWhole(file)).length).toBe(1_000_001);
  });
});

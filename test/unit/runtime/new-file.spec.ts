import { chmodSync, chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { isThere, makeFile, makeFolder, syncFolder } from '../../../src/runtime/new-file.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const root = process.geteuid?.() === 0;
const NOBODY = 65_534;

describe('new files and folders', () => {
  let folder: string;
  const at = (...names: string[]): string => join(folder, ...names);
  beforeEach(() => {
    folder = temporaryFolder();
  });

  it('are for their owner only, and made together with the folders that they are in', () => {
    makeFolder(at('a', 'b'));
    makeFolder(at('a', 'b'));
    makeFile(at('a', 'b', 'c'));
    expect(['a', 'a/b', 'a/b/c'].map((name) => statSync(at(name)).mode & 0o777)).toEqual([
      0o700, 0o700, 0o600,
    ]);
  });

  it('are refused where something else stands, and nothing is overwritten', () => {
    writeFileSync(at('file'), 'text');
    expect(() => {
      makeFolder(at('file'));
    }).toThrow('EEXIST');
    expect(() => {
      makeFolder(at('file', 'b'));
    }).toThrow('ENOTDIR');
    expect(() => {
      makeFile(at('file'));
    }).toThrow('EEXIST');
  });

  it('are there, or not, or it cannot be said', () => {
    writeFileSync(at('file'), 'text');
    expect([isThere(at('file')), isThere(at('other'))]).toEqual([true, false]);
    chmodSync(folder, 0);
    if (root) process.seteuid?.(NOBODY); // whom permissions hold for
    try {
      expect(() => isThere(at('file'))).toThrow('EACCES');
    } finally {
      if (root) process.seteuid?.(0);
      chmodSync(folder, 0o700);
    }
  });

  (process.platform === 'linux' ? it : it.skip)(
    'are refused, and not tried for ever, where nothing can be made',
    () => {
      expect(() => {
        makeFolder('/proc/nope/data');
      }).toThrow('ENOENT');
    },
  );

  // /proc is a file system that knows no fsync of a folder.
  (process.platform === 'linux' ? it : it.skip)('need no sync of their folder where there is none', () => {
    expect(() => {
      syncFolder('/proc/self');
    }).not.toThrow();
    expect(() => {
      syncFolder('/proc/self/nope');
    }).toThrow('ENOENT');
  });

  (root ? it : it.skip)(
    'that root makes belong to the owner of their folder (skipped: it needs to be root)',
    () => {
      mkdirSync(at('service'));
      chownSync(at('service'), NOBODY, NOBODY);
      makeFolder(at('service', 'data'));
      makeFile(at('service', 'data', 'file'));
      for (const name of ['data', 'data/file'])
        expect(statSync(at('service', name))).toMatchObject({ uid: NOBODY, gid: NOBODY });
    },
  );
});

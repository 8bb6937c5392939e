import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { ConfigError } from '../../../src/service/setting-values.js';
import { completeEnvironment, SECRET_SETTINGS } from '../../../src/service/environment.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
const put = (name: string, text: string | Uint8Array): string => {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
};

/** The environment after it was completed from the files. */
const completed = (env: Record<string, string | undefined>): Record<string, string | undefined> => {
  completeEnvironment(env, folder);
  return env;
};

const refusal = (env: Record<string, string>): string => {
  try {
    completed({ ...env });
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'not refused';
};

describe('.env', () => {
  it('need not be there', () => {
    expect(completed({ PORT: '1' })).toEqual({ PORT: '1' });
  });

  it('gives settings, and those that are gone, which are refused; nothing else', () => {
    put(
      '.env',
      '\ufeff# a comment\nPORT=4000\nLOG_LEVEL="debug" # why\r\nEVENTSTORE_PASSWORD=secret\nPATH=/evil\nWORKERS=2\n',
    );
    const env = {};
    expect(completeEnvironment(env, folder)).toEqual(new Set(['PORT', 'LOG_LEVEL', 'WORKERS']));
    expect(env).toEqual({ PORT: '4000', LOG_LEVEL: 'debug', WORKERS: '2' });
  });

  it('gives way to the environment, an empty value and the file of a secret included', () => {
    put('.env', 'PORT=4000\nDOCS=off\nEVENT_LOG=esdb://other:2113\nREAD_MODEL_FILE=/nowhere');
    const EVENT_LOG_FILE = put('secret', 'esdb://one:2113');
    expect(completed({ PORT: '1', DOCS: '', EVENT_LOG_FILE, READ_MODEL: 'redis://two' })).toEqual({
      PORT: '1',
      DOCS: '',
      EVENT_LOG_FILE,
      EVENT_LOG: 'esdb://one:2113',
      READ_MODEL: 'redis://two',
    });
  });

  it.each<[string, () => unknown, RegExp]>([
    ['a folder', () => mkdirSync(join(folder, '.env'), { recursive: true }), /is not a file$/],
    ['not UTF-8', () => put('.env', Buffer.from([0x50, 0xff])), /is not UTF-8$/],
    ['too long', () => put('.env', 'a'.repeat(65_537)), /is longer than 65536 bytes$/],
    [
      'a link to itself',
      () => {
        symlinkSync('.env', join(folder, '.env'));
      },
      /cannot be read \(ELOOP\)$/,
    ],
  ])('that is %s ends the start', (_what, make, message) => {
    make();
    expect(refusal({})).toMatch(message);
    expect(refusal({})).toMatch(/^\.env: ".*\.env"/);
  });
});

describe('NAME_FILE', () => {
  it.each(SECRET_SETTINGS)('%s_FILE is read, without one line end at its end', (name) => {
    const file = put('secret', 'a b\n\r\n');
    expect(completed({ [`${name}_FILE`]: file })[name]).toBe('a b\n');
  });

  it('may be empty, as other settings', () => {
    expect(completed({ EVENT_LOG: 'x', EVENT_LOG_FILE: '' }).EVENT_LOG).toBe('x');
  });

  it('is refused beside NAME, missing, empty, or no file', () => {
    const file = put('secret', 'the secret');
    const said = [
      refusal({ EVENT_LOG: 'sqlite:x', EVENT_LOG_FILE: file }),
      refusal({ READ_MODEL_FILE: join(folder, 'none') }),
      refusal({ READ_MODEL_FILE: put('empty', '\n') }),
      refusal({ READ_MODEL_FILE: folder }),
    ];
    expect(said).toEqual([
      'EVENT_LOG and EVENT_LOG_FILE are both set: leave one of them out',
      `READ_MODEL_FILE: ${JSON.stringify(join(folder, 'none'))} is missing or empty`,
      `READ_MODEL_FILE: ${JSON.stringify(join(folder, 'empty'))} is missing or empty`,
      `READ_MODEL_FILE: ${JSON.stringify(folder)} is not a file`,
    ]);
  });
});

describe('a command', () => {
  const plants = (...args: string[]) =>
    spawnSync(process.execPath, [resolve('bin/plants.js'), ...args], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env.PATH },
    });

  it('reads .env in its working directory', () => {
    put('.env', 'DATA_DIR=here\n');
    expect(plants('token', '--owner', 'ada').status).toBe(0);
    expect(existsSync(join(folder, 'here', 'signing-key.json'))).toBe(true);
  });

  it('of operators, which looks at its settings twice, takes a secret from a file', async () => {
    const log = await openSqliteEventLog(join(folder, 'other.db'));
    await log.close();
    put('secret', 'sqlite:other.db\n');
    put('.env', 'EVENT_LOG_FILE=secret\nDATA_DIR=here\n');
    const { status, stderr } = plants('status');
    expect([status, stderr]).toEqual([1, expect.stringMatching(/there is no read model here\/lists/)]);
  });

  it('says where a bad setting was set', () => {
    put('.env', 'PORT=many\n');
    const { status, stderr } = plants('token', '--owner', 'ada');
    expect([status, stderr]).toEqual([
      2,
      'plants: PORT must be an integer from 0 to 65535, not "many" (set in .env)\n',
    ]);
  });
});

import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { keyName, type VerifierKey } from '../../../src/transparency/note.js';
import { checkList, isListProof, type ListQuestion } from '../../../src/cli/check-list.js';
import { plantStream } from '../../../src/domain/stream.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { sampleMetadata } from '../../support/log-events.js';
import { keepPrinted } from './command-for-tests.js';
import { trusting } from '../../support/verified.js';

describe('plants check of a list proof', () => {
  let log: AuditedLog;
  let printed: ReturnType<typeof keepPrinted>;
  beforeAll(async () => {
    log = await AuditedLog.open();
    await log.fill(120);
    const data = { id: 1, name: 7, tag: 7 }; // as somebody else wrote it
    const event = { id: randomUUID(), type: 'PlantCreated', data, metadata: sampleMetadata() };
    await log.log.append(plantStream('odd', 1), 'none', [event]);
    await log.sign();
  });
  afterAll(async () => {
    jest.restoreAllMocks();
    await log.remove();
  });
  beforeEach(() => {
    printed = keepPrinted();
  });

  const proofOf = (...asked: Parameters<AuditedLog['listProof']>) => log.listProof(...asked);
  const checked = async (
    content: string | Uint8Array,
    question: Partial<ListQuestion> = {},
    json = false,
  ): Promise<boolean> => {
    const file = join(log.folder, randomUUID());
    writeFileSync(file, content);
    printed.stdout = '';
    return checkList({ json }, { file, trust: trusting(log.key), owner: undefined, ...question });
  };

  it('shows the first plants, and how many more there are', async () => {
    expect(await checked(await proofOf('alice'), { owner: 'alice' })).toBe(true);
    expect(printed.stdout).toMatch(
      /^proven: of the plants of "alice", after 121 events of .*, and there are no others; signed by/,
    );
    expect(printed.stdout).toContain(keyName(log.key));
    expect(printed.stdout.trim().split('\n')).toHaveLength(22);
    expect(printed.stdout).toMatch(/\n {2}and \d+ more \(--json shows all\)\n$/);
    expect(await checked(await proofOf('alice', 9, 2))).toBe(true);
    expect(printed.stdout).toMatch(
      /after the id 9, .* these are the first 2, none is left out between them, and more follow/,
    );
    expect(await checked(await proofOf('nobody'))).toBe(true);
    expect(printed.stdout).toMatch(
      /^proven: of the plants of "nobody", after 121 events of [^,]*, there are none; signed by/,
    );
    expect(await checked(gzipSync(await proofOf('odd')))).toBe(true);
    expect(printed.stdout).toMatch(/\n {2}1\s*\n$/);
  });

  it('says that nobody has signed it where no key is given', async () => {
    expect(await checked(await proofOf('bob'), { trust: trusting() })).toBe(true);
    expect(printed.stdout).toMatch(/^consistent: of the plants of "bob"/);
    expect(printed.stdout).toContain('The signature was NOT checked');
    await checked(await proofOf('bob'), { trust: trusting() }, true);
    expect(JSON.parse(printed.stdout)).toMatchObject({
      verdict: 'consistent',
      signedBy: null,
      after: null,
      last: true,
    });
  });

  it('prints all of it as one object', async () => {
    expect(await checked(await proofOf('alice', 9, 2), {}, true)).toBe(true);
    const told = JSON.parse(printed.stdout) as { plants: unknown[] };
    expect(told).toMatchObject({ verdict: 'proven', owner: 'alice', after: 9, last: false, size: 121 });
    expect(told.plants).toHaveLength(2);
  });

  it('refuses what does not hold, with the reason', async () => {
    const text = await proofOf('alice', undefined, 2);
    const other: VerifierKey = newSigner();
    const stateless = text.replace(/plants-state\/v1 [^\\]*\\n/, '');
    for (const [content, question, reason] of [
      [text, { owner: 'bob' }, 'the list is of "alice", not of "bob"'],
      [text, { trust: trusting(other) }, 'its checkpoint: '],
      [text, { trust: { ...trusting(log.key), witnesses: [other], required: 1 } }, ''],
      [stateless, { trust: trusting() }, 'its checkpoint commits to no state'],
      [text.replace('"last":false', '"last":true'), {}, 'the list goes on after the page'],
      [Buffer.concat([Buffer.from(text), Buffer.of(0xff)]), {}, 'this is not UTF-8'],
    ] as const) {
      expect([reason, await checked(content, question)]).toEqual([reason, false]);
      expect(printed.stdout).toContain(`refused: ${reason}`);
      await checked(content, question, true);
      expect(JSON.parse(printed.stdout)).toMatchObject({ verdict: 'refused' });
    }
  });

  it('is told from a bundle by how the file begins', async () => {
    for (const [content, is] of [
      [await proofOf('alice'), true],
      [gzipSync(await proofOf('bob')), true],
      [await log.bundle(), false],
      ['', false],
    ] as const) {
      const file = join(log.folder, randomUUID());
      writeFileSync(file, content);
      expect(await isListProof(file)).toBe(is);
    }
  });
});

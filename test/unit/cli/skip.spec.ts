import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { known } from '../../support/domain-model.js';
import { PassThrough } from 'node:stream';
import { skip } from '../../../src/cli/commands/skip.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type Position } from '../../../src/log/event-log.js';
import { readSkips } from '../../../src/commands/read-rebuilds.js';
import { appendRaw, run } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { Office } from './command-for-tests.js';
import { until } from '../../support/waiting.js';

const STREAM = plantStream('anne', 9);

describe('skipping an event', () => {
  let office: Office;
  let position: Position;
  const terminal = { stdin: process.stdin, isTTY: process.stderr.isTTY };

  beforeEach(async () => {
    office = await Office.open();
    await run(office.log, 'anne', createPlant(1));
    await office.answer();
    ({ position } = await appendRaw(office.log, STREAM, 'PlantWatered', { id: 9, note: 'x'.repeat(3_000) }));
  });
  afterEach(async () => {
    Object.defineProperty(process, 'stdin', { value: terminal.stdin, configurable: true });
    Object.defineProperty(process.stderr, 'isTTY', { value: terminal.isTTY, configurable: true });
    await office.close();
  });

  const skipped = async (): Promise<string[]> => [...(await readSkips(office.log, '' as Position))];

  /** Replaces standard input by a terminal. Gives its keyboard. */
  const seated = (): PassThrough => {
    const stdin = Object.assign(new PassThrough(), { isTTY: true });
    Object.defineProperty(process, 'stdin', { value: stdin, configurable: true });
    Object.defineProperty(process.stderr, 'isTTY', { value: true, configurable: true });
    return stdin;
  };

  const ask = () => skip(office.desk(), { position, reason: 'odd', yes: false, force: false });

  it('shows it, cut where it is long, and asks: yes skips it', async () => {
    const stdin = seated();
    const asking = ask();
    await until(() => office.err.includes('Skip it? [y/N] '));
    stdin.write('Yes\n');
    expect(await asking).toBe(true);
    expect(await skipped()).toEqual([`${known(await office.log.readLast(STREAM)).id}@0`]);
    expect(office.err).toContain(`event     0 of stream ${STREAM}, at position ${position}\n`);
    expect(office.err).toMatch(/^data {6}\{"id":9,"note":"x{1900,2000}…$/m);
    expect(office.err).toContain('refused   unknown type "PlantWatered"\n');
    expect(office.out).toMatch(/^skipped event 0 of /);
  });

  it.each([
    ['no', (stdin: PassThrough) => stdin.write('no\n')],
    ['the Enter key', (stdin: PassThrough) => stdin.write('\n')],
    ['the end of what is typed', (stdin: PassThrough) => stdin.end()],
  ])('skips nothing after %s', async (_name, type) => {
    const stdin = seated();
    const asking = ask();
    await until(() => office.err.includes('Skip it? [y/N] '));
    type(stdin);
    expect(await asking).toBe(false);
    expect(await skipped()).toEqual([]);
    expect(office.out).toBe('nothing is skipped\n');
  });

  it('is refused where nobody can be asked', async () => {
    seated();
    const json = { ...office.desk(), json: true };
    await expect(skip(json, { position, reason: 'odd', yes: false, force: false })).rejects.toThrow(
      'add --yes to skip it',
    );
  });

  it('is refused where no event is, before, between and after those there are', async () => {
    const nowhere = { reason: 'odd', yes: true, force: false };
    for (const there of ['0', `${position}5`, '999999999999999999999'])
      await expect(skip(office.desk(), { ...nowhere, position: there })).rejects.toThrow(
        'there is no event at that position',
      );
  });

  it('is refused for an event that blocks nothing, and for one that is skipped already', async () => {
    const good = (await office.log.readStream(plantStream('anne', 1)))[0]?.position ?? '';
    const options = { reason: 'odd', yes: true, force: false };
    await expect(skip(office.desk(), { ...options, position: good })).rejects.toThrow('it blocks nothing');
    await skip(office.desk(), { ...options, position });
    await expect(skip(office.desk(), { ...options, position })).rejects.toThrow('is skipped already');
  });
});

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type z } from 'zod';
import { RateLimited } from '../../../src/http/auth/rate-limit.js';
import { linesIn } from '../../../src/http/long-bodies.js';
import { Import, type ImportWork } from '../../../src/http/plants/import.js';
import { ImportedLine, ImportEnd } from '../../../src/http/plants/import-schemas.js';
import { ownerErasing } from '../../../src/domain/errors.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type EventLog, START } from '../../../src/log/event-log.js';
import { readSkipsInForce } from '../../../src/commands/read-rebuilds.js';
import { ensurePlant } from '../../../src/commands/plant-commands.js';
import { Faults, logGone } from '../../support/domain-faults.js';
import { appendRaw, contextOf, noon, Stores } from '../../support/domain-stores.js';
import { never } from '../../support/waiting.js';

let stores: Stores;
let log: Faults<EventLog>;
let failures: unknown[];
let raised: string[];
let listed: boolean;
beforeEach(async () => {
  stores = new Stores();
  log = new Faults(await stores.log());
  failures = [];
  raised = [];
  listed = true;
});
afterEach(() => stores.remove());

const anImport = (changes: Partial<ImportWork> = {}): Import =>
  new Import('anne', {
    count: () => Promise.resolve(),
    ensure: (plant) =>
      ensurePlant(
        { log: log.port, now: noon, skips: () => readSkipsInForce(log.port) },
        'anne',
        plant,
        contextOf({ commandId: randomUUID() }),
      ),
    freshness: {
      listed: () => Promise.resolve(listed),
      raise: (_owner, position) => raised.push(position),
    },
    onFailure: (error) => failures.push(error),
    ...changes,
  });

const plant = (id: number, name = 'n'): string => JSON.stringify({ id, name, tag: '' });

interface Answered {
  readonly lines: z.output<typeof ImportedLine>[];
  readonly end: z.output<typeof ImportEnd> | undefined;
}
const answerOf = (text: string): Answered => {
  const all = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  const last = ImportEnd.safeParse(all.at(-1));
  const lines = last.success ? all.slice(0, -1) : all;
  return { lines: lines.map((line) => ImportedLine.parse(line)), end: last.data };
};
const answered = async (
  body: string,
  run = anImport(),
  gone = never(),
  over = never(),
): Promise<Answered> => {
  let text = '';
  for await (const piece of run.answer([...linesIn(Buffer.from(body))], gone, over)) text += piece;
  return answerOf(text);
};
const outcomes = ({ lines }: Answered) => lines.map(({ line, status, outcome }) => [line, status, outcome]);
const eventsOf = (id: number) => log.port.readStream(plantStream('anne', id));

describe('an import', () => {
  it('gives each line its outcome, in their order, and says how it ended', async () => {
    const found = await answered(`${plant(1)}\n${plant(2)}\r\n\n \t\n{"id":3}\n${plant(4)}`);
    expect(outcomes(found)).toEqual([
      [1, 201, 'created'],
      [2, 201, 'created'],
      [5, 400, 'refused'],
      [6, 201, 'created'],
    ]);
    expect(found.lines[2]).toMatchObject({
      code: 'invalid_request',
      errors: [{ pointer: '/name' }, { pointer: '/tag' }],
    });
    const position = await log.port.head();
    expect(found.end).toEqual({
      ...{ done: true, created: 3, exists: 0, refused: 1, left: 0 },
      ...{ lists: 'current', position },
    });
    expect(raised).toEqual([position]);
  });

  it('can be run again: what is there is not written twice', async () => {
    const body = `${plant(1)}\n${plant(2)}\n`;
    const first = await answered(body);
    const again = await answered(body);
    expect(outcomes(again)).toEqual([
      [1, 200, 'exists'],
      [2, 200, 'exists'],
    ]);
    expect(again.lines.map(({ position }) => position)).toEqual(first.lines.map(({ position }) => position));
    expect(again.end).toMatchObject({ created: 0, exists: 2 });
    expect(await eventsOf(1)).toHaveLength(1);
  });

  it('refuses a plant that is there otherwise, and decides about one plant in the order of its lines', async () => {
    const found = await answered([plant(1), plant(1, 'other'), plant(1), plant(2)].join('\n'));
    expect(outcomes(found)).toEqual([
      [1, 201, 'created'],
      [2, 409, 'refused'],
      [3, 200, 'exists'],
      [4, 201, 'created'],
    ]);
    expect(found.lines[1]).toMatchObject({ id: 1, code: 'plant_exists' });
    expect(await eventsOf(1)).toHaveLength(1);
  });

  it('refuses lines that are no JSON, too long, or ambiguous, each by itself', async () => {
    const found = await answered(
      ['{', plant(1, 'a'.repeat(20_000)), '{"id":1,"id":2,"name":"n","tag":""}', plant(7)].join('\n'),
    );
    expect(found.lines.map(({ code }) => code)).toEqual([
      'malformed_json',
      'body_too_large',
      'invalid_request',
      undefined,
    ]);
  });

  it('has a line for each of very many, over several pieces', async () => {
    const body = Array.from({ length: 100 }, (_, id) => plant(id)).join('\n');
    const pieces: string[] = [];
    for await (const piece of anImport().answer([...linesIn(Buffer.from(body))], never(), never()))
      pieces.push(piece);
    expect(pieces.length).toBeGreaterThan(3);
    expect(answerOf(pieces.join('')).lines.map(({ line }) => line)).toEqual(
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
  });

  const many = Array.from({ length: 100 }, (_, id) => plant(id)).join('\n');

  it.each<[string, () => Partial<ImportWork>, number, string]>([
    [
      'the owner has sent too much',
      () => ({
        count: (line) =>
          line <= 40
            ? Promise.resolve()
            : Promise.reject(
                new RateLimited({ policy: 'owner', perMinute: 40, remaining: 0, resetSeconds: 9 }),
              ),
      }),
      429,
      'rate_limited',
    ],
    [
      'the owner is being erased',
      () => ({ ensure: () => Promise.reject(ownerErasing()) }),
      410,
      'owner_erasing',
    ],
    [
      'the log is not there',
      () => {
        log.every('append', logGone);
        return {};
      },
      503,
      'log_unavailable',
    ],
  ])('ends where %s, and says how many lines are left', async (_what, work, status, code) => {
    const { lines, end } = await answered(many, anImport(work()));
    const last = lines.at(-1);
    expect(last).toMatchObject({ status, code, outcome: 'refused' });
    expect(lines.length).toBeLessThan(100);
    expect(end).toMatchObject({ done: false, left: 100 - lines.length });
    expect(end?.created).toBe(lines.filter(({ outcome }) => outcome === 'created').length);
    expect(failures).toEqual([]);
  });

  it('reports a mistake of ours, and shows nothing of it', async () => {
    const mistake = new TypeError('no function');
    const { lines } = await answered(plant(1), anImport({ ensure: () => Promise.reject(mistake) }));
    expect(lines).toMatchObject([{ status: 500, code: 'internal_error' }]);
    expect(JSON.stringify(lines)).not.toContain('no function');
    expect(failures).toEqual([mistake]);
  });

  it('says where lists are behind, and nothing of positions where nothing was added', async () => {
    listed = false;
    expect((await answered(plant(1))).end).toMatchObject({ lists: 'behind' });
    expect((await answered('{}')).end).toEqual({
      ...{ done: true, created: 0, exists: 0, refused: 1, left: 0, lists: 'current' },
    });
  });

  it('writes nothing more for a client that has gone, and ends when the service stops', async () => {
    const [gone, over] = [new AbortController(), new AbortController()];
    gone.abort(new Error('gone'));
    await expect(answered(many, anImport(), gone.signal)).rejects.toThrow('gone');
    over.abort();
    expect(await answered(many, anImport(), never(), over.signal)).toMatchObject({
      lines: [],
      end: { done: false, left: 100 },
    });
    expect(await log.port.head()).toBe(START);
  });

  it('cannot tell about a plant whose last event cannot be read', async () => {
    await appendRaw(log.port, plantStream('anne', 1), 'PlantPainted', {});
    const { lines, end } = await answered(`${plant(1)}\n${plant(2)}`);
    expect(lines[0]).toMatchObject({ line: 1, status: 503, code: 'owner_blocked', outcome: 'refused' });
    expect(end).toMatchObject({ refused: 1, created: 1 });
  });
});

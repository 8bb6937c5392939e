import { describe, expect, it } from '@jest/globals';
import { type Figure } from '../../../../src/service/workers/messages.js';
import { SummedFigures } from '../../../../src/service/workers/summed-figures.js';
import { samplesIn } from '../../../support/samples.js';

const figure = (name: string, type: string, value: number, aggregator = 'sum'): Figure => ({
  name,
  help: 'Help.',
  type,
  aggregator,
  values: [{ value, labels: {} }],
});

/** A worker that answers each scrape with these figures, or not at all. */
const worker = (sums: SummedFigures, id: number, figures: () => readonly Figure[] | undefined) => ({
  id,
  ask: (scrape: number): void => {
    const shown = figures();
    if (shown)
      setImmediate(() => {
        sums.received(id, scrape, shown);
      });
  },
});

const shown = async (text: Promise<string>): Promise<Record<string, number>> =>
  Object.fromEntries(samplesIn(await text));

describe('the figures of several workers', () => {
  it('are added, or shown as their gauge says', async () => {
    const sums = new SummedFigures();
    const workers = [1, 2].map((id) =>
      worker(sums, id, () => [
        figure('requests', 'counter', id),
        figure('connections', 'gauge', id),
        figure('ready', 'gauge', id - 1, 'min'),
      ]),
    );
    expect(await shown(sums.text(workers, [figure('workers', 'gauge', 2)]))).toEqual({
      requests: 3,
      connections: 3,
      ready: 0,
      workers: 2,
    });
  });

  it('keep what ended workers have counted, and not what they were', async () => {
    const sums = new SummedFigures();
    const workers = [1, 2, 3, 4].map((id) =>
      worker(sums, id, () => [figure('requests', 'counter', 10), figure('connections', 'gauge', 1)]),
    );
    await sums.text(workers, []);
    sums.received(1, undefined, [figure('requests', 'counter', 11), figure('connections', 'gauge', 1)]);
    for (const id of [1, 2, 3]) sums.ended(id);
    for (let scrape = 0; scrape < 2; scrape += 1)
      expect(await shown(sums.text(workers.slice(3), []))).toEqual({ requests: 41, connections: 1 });
  });

  it('are those of the scrape before where a worker does not answer, and wait for none that ends', async () => {
    const sums = new SummedFigures();
    let answers = true;
    const workers = [1, 2].map((id) =>
      worker(sums, id, () => (answers || id === 1 ? [figure('requests', 'counter', 5)] : undefined)),
    );
    expect(await shown(sums.text(workers, []))).toEqual({ requests: 10 });
    answers = false;
    expect(await shown(sums.text(workers, []))).toEqual({ requests: 10 });
    const scrape = sums.text(workers, []);
    sums.ended(2);
    expect(await shown(scrape)).toEqual({ requests: 10 });
  });

  it('of no worker are those of the caller', async () => {
    expect(await shown(new SummedFigures().text([], [figure('workers', 'gauge', 0)]))).toEqual({
      workers: 0,
    });
  });
});

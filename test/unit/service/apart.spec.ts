import { expect, it } from '@jest/globals';
import { operationsApart } from '../../../src/service/apart.js';
import { loadConfig } from '../../../src/service/config.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';

it('a verification compares the stores of its settings, whatever the environment of the process says', async () => {
  const stores = new Stores();
  try {
    const log = await stores.log();
    const model = await stores.model(log);
    await run(log, 'anne', { type: 'CreatePlant', id: 1, name: 'Monstera', tag: 'aroid' });
    const generation = await model.createGeneration();
    await catchUp(log, model, generation);
    await model.promote(generation);
    const { verify } = operationsApart(loadConfig({ DATA_DIR: stores.folder })); // process.env has no DATA_DIR
    const found = await verify({
      signal: new AbortController().signal,
      onProgress: () => undefined,
      onCompared: () => Promise.resolve(),
    });
    expect(found).toMatchObject({ generation, differing: 0 });
  } finally {
    await stores.remove();
  }
});

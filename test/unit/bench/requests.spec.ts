import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Load, type LoadKind } from '../../../bench/load.js';
import { requestsOf } from '../../../bench/requests.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

describe('the requests of a load', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder();
    writeFileSync(join(folder, 'authorizations'), 'Bearer a\nBearer b\n');
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  const some = (kind: LoadKind, count: number, order: Pick<Load, 'turns' | 'from'> = {}) => {
    const next = requestsOf({
      kind,
      path: '/plants?limit=20',
      ids: [
        { first: 4, last: 5 },
        { first: 8, last: 8 },
      ],
      authorizations: join(folder, 'authorizations'),
      ...order,
    });
    return Array.from({ length: count }, next);
  };

  it('delete the plants of all ranges, each with the authorization of its owner', () => {
    expect(some('delete', 3).map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ['/plants/4', 'Bearer a'],
      ['/plants/5', 'Bearer b'],
      ['/plants/8', 'Bearer a'],
    ]);
  });

  it('create a plant of their own each', () => {
    const bodies = some('create', 2).map(({ body = '' }) => JSON.parse(body) as { id: number });
    expect(bodies.map(({ id }) => id)).toEqual([4, 5]);
  });

  it('are of the owners whose turn it is, going on where another load ended', () => {
    const turns = join(folder, 'turns');
    writeFileSync(turns, '2\n2\n1\n');

    for (const kind of ['list', 'create'] as const)
      expect(some(kind, 4, { turns, from: 4 }).map(({ headers }) => headers.authorization)).toEqual([
        'Bearer b',
        'Bearer a',
        'Bearer b',
        'Bearer b',
      ]);
  });

  it('list nine times of ten in a mix', () => {
    const methods = some('mix', 20).map(({ method }) => method);
    expect(methods.filter((method) => method === 'POST')).toHaveLength(2);
  });
});

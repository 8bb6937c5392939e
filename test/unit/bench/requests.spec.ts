import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LoadKind } from '../../../bench/load.js';
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

  const some = (kind: LoadKind, count: number) => {
    const next = requestsOf({
      kind,
      path: '/plants?limit=20',
      ids: [
        { first: 4, last: 5 },
        { first: 8, last: 8 },
      ],
      authorizations: join(folder, 'authorizations'),
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

  it('list nine times of ten in a mix', () => {
    const methods = some('mix', 20).map(({ method }) => method);
    expect(methods.filter((method) => method === 'POST')).toHaveLength(2);
  });
});

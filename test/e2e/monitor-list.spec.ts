import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { AlteringProxy, type PassedOn } from '../support/altering-proxy.js';
import { HOUSEPLANTS } from '../support/houseplants.js';
import { HttpClient } from '../support/http-client.js';
import { runCli } from '../support/http-cli.js';
import { TestService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';

interface Verdict {
  readonly verdict: 'verified' | 'refused';
  readonly reason?: string;
  readonly evidence?: readonly string[];
  readonly list?: {
    readonly owner: string;
    readonly plants: number;
    readonly proven: boolean;
    readonly changes: { readonly added: number[]; readonly gone: number[]; readonly again: number[] } | null;
  };
}

type Rows = { id: number; name: string; tag: string }[];

/** Alters the rows of each page of the list. */
const rows =
  (change: (rows: Rows) => Rows) =>
  ({ path, body }: PassedOn): Partial<PassedOn> | undefined =>
    path.startsWith('/plants?') ? { body: JSON.stringify(change(JSON.parse(body) as Rows)) } : undefined;

/** Alters each proof of a page. */
const proofs =
  (change: (proof: Record<string, unknown>) => unknown) =>
  ({ path, body }: PassedOn): Partial<PassedOn> | undefined =>
    path.startsWith('/log/list')
      ? { body: JSON.stringify(change(JSON.parse(body) as Record<string, unknown>)) }
      : undefined;

describe('plants monitor --token', () => {
  let service: TestService;
  let http: HttpClient;
  let lying: AlteringProxy;
  let vkey: string;
  let folder: string;
  let token: string;
  let looks = 0;
  beforeAll(async () => {
    folder = temporaryFolder();
    service = await TestService.start();
    await service.ready();
    http = new HttpClient(service);
    lying = await AlteringProxy.start(service.url);
    vkey = (await runCli(['audit-key'], service.env)).stdout.trim();
    token = join(folder, 'anne.jwt');
    writeFileSync(token, `${await http.token('anne')}\n`);
    // More than one page, with names in several scripts.
    for (const plant of HOUSEPLANTS.slice(0, 120))
      await http.create(plant, { token: await http.token('anne') });
    await http.create({ id: 1, name: 'of another owner', tag: '' }, { token: await http.token('bob') });
  });
  beforeEach(() => {
    lying.alter = () => undefined;
    looks += 1;
  });
  afterAll(async () => {
    lying.close();
    await http.finish();
    await service.stop();
    rmSync(folder, { recursive: true });
  });

  const look = async (...more: string[]) =>
    runCli(['monitor', lying.url, '--key', vkey, '--once', '--json', ...more], {});
  const judged = async (...more: string[]): Promise<Verdict & { status: number | null }> => {
    const { status, stdout, stderr } = await look('--token', token, ...more);
    if (stdout === '') throw new Error(stderr);
    return { status, ...(JSON.parse(stdout) as Verdict) };
  };

  it('verifies the whole list, and tells what has changed since the last look', async () => {
    const state = join(folder, `state ${looks}`);
    const owner = { token: await http.token('anne') };
    expect(await judged('--state', state)).toMatchObject({
      status: 0,
      list: { owner: 'anne', plants: 120, proven: true, changes: null },
    });
    await http.create({ id: 500, name: 'New', tag: '' }, owner);
    await http.delete(3, owner);
    await http.delete(4, owner);
    await http.create({ id: 4, name: 'Again', tag: '' }, owner);
    expect(await judged('--state', state)).toMatchObject({
      status: 0,
      list: { plants: 120, changes: { added: [500], gone: [3], again: [4] } },
    });
    expect((await judged('--state', state)).list?.changes).toEqual({ added: [], gone: [], again: [] });
    const { stdout } = await runCli(['monitor', lying.url, '--key', vkey, '--once', '--token', token], {});
    expect(stdout).toMatch(
      /verified: \d+ events .*; the list of "anne" is the proven one, with 120 plants\n$/,
    );
  });

  it.each<[string, (answer: PassedOn) => Partial<PassedOn> | undefined, RegExp]>([
    [
      'leaves a plant out',
      rows((all) => all.filter(({ id }) => id !== 7)),
      /"anne": plant 7 of the signed history is left out$/,
    ],
    [
      'leaves the last plant out',
      rows((all) => all.slice(0, -1)),
      /plant \d+ of the signed history is left out$/,
    ],
    [
      'invents a plant',
      rows((all) => [{ id: -5, name: 'x', tag: '' }, ...all.slice(1)]),
      /it shows plant -5, which the signed history does not hold$/,
    ],
    [
      'changes a name',
      rows((all) => all.map((row) => ({ ...row, name: `${row.name}!` }))),
      /it shows plant 1 as ".*!", ".*", and the signed history has "/,
    ],
    [
      'lists a plant twice',
      rows((all) => [...all.slice(0, 1), ...all.slice(0, -1)]),
      /plant 1 comes after plant 1$/,
    ],
    ['lists nothing', rows(() => []), /plant 1 of the signed history is left out$/],
    [
      'lists what are no plants',
      rows(() => [{ id: 1 }] as Rows),
      /its answer to \/plants\?limit=100&view=full is no list of plants$/,
    ],
    [
      'has no proof of what it lists',
      ({ path }) => (path.startsWith('/log/list') ? { status: 404, body: '{}' } : undefined),
      /it shows plant 1, which the signed history does not hold$/,
    ],
    [
      'leaves a plant out of its proof',
      proofs((proof) => ({ ...proof, plants: (proof.plants as unknown[]).slice(1) })),
      /^the proof of the list of "anne": /,
    ],
    [
      'gives the proof of another page',
      proofs((proof) => ({ ...proof, after: 0 })),
      /^the proof of the list of "anne": /,
    ],
    [
      'gives rubbish for a proof',
      ({ path }) => (path.startsWith('/log/list') ? { body: '<html>' } : undefined),
      /^the proof of the list of "anne": this is no list proof of version 1$/,
    ],
  ])('refuses a service that %s', async (_, alter, reason) => {
    lying.alter = alter;
    const verdict = await judged();
    expect(verdict.reason).toMatch(reason);
    expect(verdict).toMatchObject({ status: 1, verdict: 'refused' });
  });

  it('refuses the proof of the list of another owner', async () => {
    const bob = await http.send({ path: '/log/list', token: await http.token('bob') });
    lying.alter = ({ path }) => (path.startsWith('/log/list') ? { body: bob.text } : undefined);
    expect((await judged()).reason).toBe('the proof of the list of "anne": it is of "bob"');
  });

  it('refuses a proof of a state before the last verified checkpoint', async () => {
    const state = join(folder, `state ${looks}`);
    const kept = new Map<string, string>();
    lying.alter = ({ path, body }) => {
      if (path.startsWith('/log/list')) kept.set(path.replace(/&position=.*/, ''), body);
      return undefined;
    };
    await judged('--state', state);
    await http.create({ id: 600, name: 'Later', tag: '' }, { token: await http.token('anne') });
    lying.alter = ({ path }) => {
      const body = kept.get(path.replace(/&position=.*/, ''));
      return body === undefined ? undefined : { body };
    };
    const verdict = await judged('--state', state);
    expect(verdict.reason).toMatch(/^it went back from \d+ events to \d+$/);
    expect(verdict.evidence).toHaveLength(2);
  });

  it('tells an empty list that is proven from one that is not', async () => {
    const nobody = join(folder, 'nobody.jwt');
    writeFileSync(nobody, await http.token('nobody'));
    expect((await judged('--token', nobody)).list).toMatchObject({
      owner: 'nobody',
      plants: 0,
      proven: false,
    });
    writeFileSync(nobody, await http.token('nobody', 'plants:read plants:audit'));
    expect((await judged('--token', nobody)).list).toMatchObject({ plants: 0, proven: true });
  });

  it('takes a refused token and a service that does not answer for no evidence', async () => {
    writeFileSync(join(folder, 'other.jwt'), await http.token('anne', 'plants:write'));
    const { status, stdout, stderr } = await look('--token', join(folder, 'other.jwt'));
    expect({ status, stdout }).toEqual({ status: 3, stdout: '' });
    expect(stderr).toMatch(/the service answers 403 to \/plants\?limit=100&view=full: .*plants:read/);
  });

  it('sends the token to its service alone', async () => {
    lying.requests.length = 0;
    await judged();
    for (const { path, authorization } of lying.requests)
      expect(authorization === undefined).toBe(!/^\/plants\?|^\/log\/list/.test(path));
    const remote = await runCli(['monitor', 'http://plants.example', '--key', vkey, '--token', token], {});
    expect(remote).toMatchObject({ status: 2 });
    expect(remote.stderr).toMatch(/a token is sent by https only, or to this machine/);
  });

  it('refuses wrong usage with one line', async () => {
    const usage = async (...args: string[]) => {
      const { status, stderr } = await look(...args);
      expect(status).toBe(2);
      return stderr;
    };
    expect(await usage('--owner', 'anne')).toMatch(/--owner says whose --token it is/);
    expect(await usage('--token', join(folder, 'none'))).toMatch(/cannot be read: ENOENT/);
    const file = join(folder, 'opaque');
    writeFileSync(file, 'two words');
    expect(await usage('--token', file)).toMatch(/holds no bearer token/);
    writeFileSync(file, 'opaque');
    expect(await usage('--token', file)).toMatch(/does not say whose it is: name the owner with --owner/);
    const state = join(folder, 'kept');
    writeFileSync(`${state}.list`, '{');
    expect(await usage('--token', token, '--state', state)).toMatch(/holds no list: move it away/);
    writeFileSync(`${state}.list`, '{"owner":"anne","plants":[[1]]}');
    expect(await usage('--token', token, '--state', state)).toMatch(/holds no list: move it away/);
    writeFileSync(`${state}.list`, '{"owner":"bob","plants":[]}');
    expect(await usage('--token', token, '--state', state)).toMatch(/is the list of another owner/);
    expect(readFileSync(`${state}.list`, 'utf8')).toBe('{"owner":"bob","plants":[]}');
  });
});

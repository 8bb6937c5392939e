import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { formatVerifierKey, parseNote } from '../../src/transparency/note.js';
import { newSigner } from '../support/audited-log.js';
import { CliProcess } from '../support/cli-process.js';
import { type ForeignInput, ForeignVerifier } from '../support/foreign-verifier.js';
import { runCli } from '../support/http-cli.js';
import { HttpClient } from '../support/http-client.js';
import { LogOfLeaves } from '../support/log-of-leaves.js';
import { TestService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { untilSeen } from '../support/waiting.js';
import { startWitness, type WitnessProcess } from '../support/witness-process.js';

/** Go and golang.org/x/mod, which a machine that compiles no Go hardly has; `npm run test:all -- --lane foreign` wants them. */
const FOREIGN = ForeignVerifier.compile();
const WHERE = 'apt-get install golang-go golang-golang-x-mod-dev, or go mod download in test/foreign';
if (!FOREIGN && process.env.TEST_FOREIGN === 'required')
  throw new Error(`Go or golang.org/x/mod is not here: ${WHERE}`);
if (!FOREIGN)
  process.stdout.write(
    `Go or golang.org/x/mod is not here: nothing is verified by code that is not ours (${WHERE}).\n`,
  );

/** More than a tile holds, so that there are two levels of tiles. */
const PLANTS = 300;
const TILE = 256;

(FOREIGN ? describe : describe.skip)("by Go's sumdb/note and sumdb/tlog", () => {
  const says = (inputs: readonly ForeignInput[]): string[] => FOREIGN?.says(inputs) ?? [];
  const folder = temporaryFolder();
  afterAll(async () => {
    await CliProcess.stopAll();
    FOREIGN?.remove();
  });

  const witnessOf = (name: string, logKey: string): Promise<WitnessProcess> =>
    startWitness(['--name', name, '--log', logKey, '--data', join(folder, name)]);

  describe('a service with two witnesses', () => {
    let service: TestService;
    let http: HttpClient;
    let good: Required<ForeignInput>;

    const text = async (path: string, headers: Record<string, string> = {}): Promise<string> => {
      const { status, text: body } = await http.send({ path, headers, token: await http.token('anne') });
      expect(status).toBe(200);
      return body;
    };
    const sizeOf = (note: string): number => Number(note.split('\n')[1]);

    /** A checkpoint of at least so many events that both have cosigned. */
    const cosignedOf = (events: number): Promise<string> =>
      untilSeen(
        () => text('/log/checkpoint'),
        (note) => sizeOf(note) >= events && parseNote(note).signatures.length === 3,
      );

    const create = async (id: number): Promise<string> => {
      const { status, headers } = await http.create(
        { id, name: `Φίκος ${id}`, tag: '' },
        { token: await http.token('anne') },
      );
      expect(status).toBe(201);
      return String(headers['plants-position']);
    };

    /** All tiles of a tree, in base64. */
    const tilesOf = async (size: number): Promise<Record<string, string>> => {
      const tiles: Record<string, string> = {};
      for (let [level, nodes] = [0, size]; nodes > 0; level++, nodes = Math.floor(nodes / TILE))
        for (let first = 0; first < nodes; first += TILE) {
          const width = Math.min(TILE, nodes - first);
          const name = String(first / TILE).padStart(3, '0');
          const path = `tile/${level}/${name}${width < TILE ? `.p/${width}` : ''}`;
          const answer = await fetch(`${service.url}/log/${path}`);
          tiles[path] = Buffer.from(await answer.arrayBuffer()).toString('base64');
        }
      return tiles;
    };

    beforeAll(async () => {
      service = await TestService.start();
      await service.ready();
      const logKey = (await runCli(['audit-key'], service.env)).stdout.trim();
      await service.stop();
      const witnesses = [await witnessOf('one.example', logKey), await witnessOf('two.example', logKey)];
      await service.start({
        AUDIT_WITNESSES: witnesses.map(({ vkey, url }) => `${vkey} ${url}`).join(','),
      });
      await service.ready();
      http = new HttpClient(service);
      await create(0);
      const older = await cosignedOf(1);
      const positions = await Promise.all(
        Array.from({ length: PLANTS }, (_none, index) => create(index + 1)),
      );
      const checkpoint = await cosignedOf(sizeOf(older) + PLANTS);
      const [from, to] = [sizeOf(older), sizeOf(checkpoint)];
      const { proof } = JSON.parse(await text(`/log/proof/consistency?from=${from}&to=${to}`)) as {
        proof: string[];
      };
      const receipt = await text(`/log/receipt?position=${positions[PLANTS / 2] ?? ''}`, {
        accept: 'text/plain',
      });
      good = {
        logKey,
        witnesses: witnesses.map(({ vkey }) => vkey),
        ...{ checkpoint, older, consistency: proof, receipt, tiles: await tilesOf(to) },
      };
    });
    afterAll(() => http.finish());

    it('gives out signatures, cosignatures, proofs of both kinds and tiles that verify', () => {
      const [verdict] = says([good]);
      expect(verdict).toMatch(
        /^verified: 3\d\d events signed by 3, go on from \d+, event \d+ is in 3\d\d, also by the tiles$/,
      );
    });

    it('gives out nothing that verifies when it is altered', () => {
      const other = formatVerifierKey(newSigner(parseNote(good.checkpoint).text.split('\n')[0]));
      const [first = '', ...rest] = good.consistency;
      const alteredLast = (note: string): string =>
        note.replace(/[^ ]+\n$/, (last) => {
          const bytes = Buffer.from(last, 'base64');
          bytes[20] = (bytes[20] ?? 0) ^ 1;
          return `${bytes.toString('base64')}\n`;
        });
      const forms: Record<string, [ForeignInput, RegExp]> = {
        'another key': [{ ...good, logKey: other }, /signed by 2 of 3/],
        'a witness that has not cosigned': [
          { ...good, witnesses: [...good.witnesses, 'w.example+5d3d2f5a+BA=='] },
          /no Ed25519 key of a witness/,
        ],
        'another cosignature': [{ ...good, checkpoint: alteredLast(good.checkpoint) }, /invalid signature/],
        'another size': [
          { ...good, checkpoint: good.checkpoint.replace(/\n3(\d\d)\n/, '\n4$1\n') },
          /invalid signature/,
        ],
        'a proof of consistency with a hash less': [{ ...good, consistency: rest }, /invalid transparency/],
        'a proof of consistency with two hashes swapped': [
          { ...good, consistency: [...rest, first] },
          /invalid transparency proof/,
        ],
        'another event': [
          { ...good, receipt: good.receipt.replace(/\nindex (\d+)\n/, '\nindex 1$1\n') },
          /inclusion|invalid|record/i,
        ],
        'another tile': [
          {
            ...good,
            tiles: Object.fromEntries(
              Object.entries(good.tiles).map(([path, data]) => [path, data.replace(/^..../, 'AAAA')]),
            ),
          },
          /downloaded inconsistent tile/,
        ],
      };
      const verdicts = says(Object.values(forms).map(([input]) => input));
      Object.entries(forms).forEach(([form, [, reason]], index) => {
        const verdict = verdicts[index] ?? '';
        expect({ form, verdict }).toEqual({ form, verdict: expect.stringMatching(/^refused: /) });
        expect({ form, verdict }).toEqual({ form, verdict: expect.stringMatching(reason) });
      });
    });
  });

  it('a log with two histories has a cosignature for the first, and none for the second', async () => {
    const first = new LogOfLeaves();
    const second = new LogOfLeaves(first.key, 300, 'other', 90);
    const logKey = formatVerifierKey(first.key);
    const witness = await witnessOf('three.example', logKey);
    const submit = async (request: string): Promise<{ status: number; body: string }> => {
      const answer = await fetch(`${witness.url}/add-checkpoint`, { method: 'POST', body: request });
      return { status: answer.status, body: await answer.text() };
    };
    const input = (checkpoint: string): ForeignInput => ({
      ...{ logKey, checkpoint },
      witnesses: [witness.vkey],
    });
    const cosigned = await submit(first.request(0, 100));
    const refused = [
      await submit(second.request(0, 100)),
      await submit(second.request(100, 100)),
      await submit(second.request(100, 200)),
    ];
    expect([cosigned, ...refused].map(({ status }) => status)).toEqual([200, 409, 422, 422]);
    const originHash = createHash('sha256').update(first.key.name).digest('hex');
    const kept = await (await fetch(`${witness.url}/${originHash}/checkpoint`)).text();
    expect(
      says([
        input(first.note(100) + cosigned.body),
        input(kept),
        input(second.note(100)),
        input(second.note(100) + cosigned.body),
        ...refused.map(({ body }) => input(second.note(200) + body)),
      ]),
    ).toEqual([
      'verified: 100 events signed by 2',
      'verified: 100 events signed by 2',
      'refused: signed by 1 of 2',
      expect.stringMatching(/^refused: invalid signature for key three\.example\+/),
      ...refused.map(() => expect.stringMatching(/^refused: malformed note/) as unknown),
    ]);
  });
});

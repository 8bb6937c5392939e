import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { cosignaturesOf } from '../../src/transparency/cosignature.js';
import { keyName, parseNote, parseVerifierKey, type VerifierKey } from '../../src/transparency/note.js';
import { verifyListProof } from '../../src/transparency/list-proof.js';
import { type Receipt, verifyReceipt } from '../../src/transparency/receipt.js';
import { type SystemStatus } from '../../src/operations/system-status.js';
import { CliProcess } from '../support/cli-process.js';
import { resolved } from '../support/history-client.js';
import { runCli } from '../support/http-cli.js';
import { HttpClient } from '../support/http-client.js';
import { TestService } from '../support/service.js';
import { STORES } from '../support/stores-of-this-run.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until, untilSeen } from '../support/waiting.js';
import { startWitness, type WitnessProcess } from '../support/witness-process.js';
import { proven } from '../support/verified.js';

describe('a service with a witness', () => {
  let service: TestService;
  let http: HttpClient;
  let folder: string;
  let witness: WitnessProcess;
  let key: VerifierKey;
  let token: string;
  let options: string[];
  let settings: Record<string, string>;

  beforeAll(async () => {
    folder = temporaryFolder();
    service = await TestService.start();
    await service.ready();
    const vkey = (await runCli(['audit-key'], service.env)).stdout.trim();
    key = parseVerifierKey(vkey);
    options = ['--name', 'witness.example/w1', '--log', vkey, '--data', join(folder, 'witness')];
    witness = await startWitness(options);
    await service.stop();
    settings = { AUDIT_WITNESSES: `${witness.vkey} ${witness.url}` };
    await service.start(settings);
    await service.ready();
    http = new HttpClient(service);
    token = await http.token('anne');
  });
  afterAll(async () => {
    await CliProcess.stopAll();
    await http.finish();
  });

  const status = async (): Promise<SystemStatus> => {
    const { stdout } = await runCli(['status', '--json'], service.env);
    return JSON.parse(stdout) as SystemStatus;
  };
  const witnessIn = ({ processes }: SystemStatus) =>
    processes.find(({ auditor }) => auditor)?.auditor?.witnessing?.witnesses[0];

  /** The receipt of a new plant. */
  const receiptOf = async (id: number) => {
    const created = await http.create(
      { id, name: `n${id}`, tag: '' },
      { token, headers: { prefer: 'receipt' } },
    );
    expect(created.status).toBe(201);
    const [, path = ''] = /<(.*)>/.exec(String(created.headers.link)) ?? [];
    // The auditor may have to read a long log first, which others have written.
    const { text } = await untilSeen(
      () => http.send({ path: resolved(path, '/plants'), token }),
      ({ status }) => status === 200,
    );
    return JSON.parse(text) as Receipt;
  };

  it('gives receipts that say by whom they are witnessed, and prove it', async () => {
    for (const id of [1, 2]) {
      const receipt = await receiptOf(id);
      expect(receipt.witnesses).toEqual([keyName(witness.key)]);
      expect(cosignaturesOf(receipt.checkpoint, [witness.key])).toHaveLength(1);
      await proven(
        verifyReceipt(JSON.stringify(receipt), { keys: [key], witnesses: [witness.key], required: 1 }),
      );
    }
  });

  it('proves a list by a checkpoint that it has cosigned', async () => {
    const created = await http.create({ id: 9, name: 'n9', tag: '' }, { token });
    const path = `/log/list?position=${String(created.headers['plants-position'])}`;
    const { text } = await untilSeen(
      () => http.send({ path, token }),
      ({ status }) => status === 200,
    );
    expect(JSON.parse(text)).toMatchObject({ version: 2, witnesses: [keyName(witness.key)] });
    const trust = { keys: [key], witnesses: [witness.key], required: 1 };
    const list = await proven(verifyListProof(text, trust));
    expect(list.plants.map(({ id }) => id)).toContain(9);
    expect(list.cosignedBy).toHaveLength(1);
  });

  it('shows the cosignatures with its checkpoint, in its status and in its metrics', async () => {
    await receiptOf(3);
    await until(async () => {
      const { text } = await http.send({ path: '/log/checkpoint' });
      return cosignaturesOf(text, [witness.key]).length === 1;
    });
    await until(async () => witnessIn(await status())?.state === 'cosigns');
    expect((await runCli(['status'], service.env)).stdout).toMatch(
      /witnesses +.*: \d+ events? cosigned by 1 of 1; witness\.example\/w1\+\w+ cosigns, last \d+ at /,
    );
    const metrics = (await http.send({ path: '/metrics' })).text;
    expect(metrics).toMatch(/^plants_tree_witnessed_size [1-9]/m);
    expect(metrics).toMatch(/^plants_erasure_held_up 0$/m);
    expect(metrics).toMatch(/^plants_witness_size\{witness="witness\.example\/w1\+\w+"\} [1-9]/m);
    expect(metrics).toMatch(/^plants_witness_failing\{.*\} 0$/m);
  });

  it('goes on without the witness, says so, and has its cosignature when it is back', async () => {
    witness.process.signal('SIGKILL');
    await witness.process.ended();
    const alone = await receiptOf(4);
    expect(alone.witnesses).toEqual([]);
    await until(async () => witnessIn(await status())?.state === 'unreachable');
    expect((await status()).warnings.join('\n')).toMatch(
      /the witness witness\.example\/w1\+\w+ does not answer as it should: it cannot be reached \(ECONNREFUSED\)/,
    );
    expect((await receiptOf(5)).witnesses).toEqual([]); // it waits for a checkpoint, and for no witness
    witness = await startWitness(options, new URL(witness.url).port);
    await until(async () => witnessIn(await status())?.state === 'cosigns');
    expect((await receiptOf(6)).witnesses).toEqual([keyName(witness.key)]);
  });

  it('keeps its cosignatures over a restart', async () => {
    await service.stop();
    witness.process.signal('SIGTERM');
    await witness.process.ended();
    await service.start(settings);
    await service.ready();
    const { text } = await http.send({ path: '/log/checkpoint' });
    expect(cosignaturesOf(text, [witness.key])).toHaveLength(1);
  });

  (STORES === 'embedded' ? it : it.skip)(
    'signs nothing of another history, after its data was restored to before what the witness has cosigned',
    async () => {
      await service.stop();
      cpSync(service.dataDir, join(folder, 'old'), { recursive: true });
      witness = await startWitness(options, new URL(witness.url).port);
      await service.start(settings);
      await service.ready();
      expect((await receiptOf(7)).witnesses).toEqual([keyName(witness.key)]);
      await service.stop();
      rmSync(service.dataDir, { recursive: true });
      cpSync(join(folder, 'old'), service.dataDir, { recursive: true });
      await service.start(settings);
      await service.ready();
      const before = (await http.send({ path: '/log/checkpoint' })).text;
      expect((await http.create({ id: 8, name: 'n8', tag: '' }, { token })).status).toBe(201);
      const alarm = async () => (await status()).processes.find(({ auditor }) => auditor)?.auditor?.alarm;
      await until(async () => Boolean(await alarm()));
      expect(await alarm()).toMatchObject({
        kind: 'fork',
        message: expect.stringMatching(/^the witness .* another root now: the log was restored/) as unknown,
      });
      // All but the cosignatures, of which the older file may know more
      const textOf = (note: string): string => parseNote(note).text;
      expect(textOf((await http.send({ path: '/log/checkpoint' })).text)).toBe(textOf(before));
    },
  );
});

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { plantStream } from '../../src/domain/stream.js';
import { type EventLog, type NewEvent, type Position } from '../../src/log/event-log.js';
import { type Issuer, startIssuer } from '../support/auth-issuer.js';
import { TokenMint } from '../support/auth-tokens.js';
import { created, deleted } from '../support/given.js';
import { type AttackName, ATTACKS, BUSY_PLANT, PLANTS, type Target } from '../support/hostile/attacks.js';
import { attack, FairClient } from '../support/hostile/clients.js';
import { type FairFigures } from '../support/hostile/fair-child.js';
import { HttpClient } from '../support/http-client.js';
import { sampleMetadata } from '../support/log-events.js';
import { TestService } from '../support/service.js';

/** The time of each attack, in seconds: 60 in the long form. */
const SECONDS = Number(process.env.HOSTILE_SECONDS ?? '1');
const LONG = SECONDS > 10;

/** The most memory of the service, in bytes (VmHWM). */
const MOST_MEMORY = 300 * 1024 * 1024;

/** The greatest ratio of the 99th percentile of other clients' lists during an attack to that without one. */
const MOST_SLOWER = 3;

/** Lists that the fair client asks for in a second. */
const FAIR_RATE = 50;

/** Events of the plant with a long history. */
const EVENTS = LONG ? 100_000 : 2_000;

/** Lines of the log that a hostile client may cause without a token: 100 of each kind in a minute, and kinds are few. */
const STRANGERS_LINES = 1_000 * Math.ceil(SECONDS / 60);

const OWNERS = { fair: `fair ${randomUUID()}`, greedy: `greedy ${randomUUID()}` };
const PAST_OWNERS = [`one ${randomUUID()}`, `two ${randomUUID()}`, `three ${randomUUID()}`] as const;

let http: HttpClient;
let issuer: Issuer;
let mint: TokenMint;
let fair: FairClient;
beforeAll(async () => {
  mint = await TokenMint.make('one', { iss: 'https://issuer.example' });
  issuer = await startIssuer(mint.publicJwk);
  fair = new FairClient();
  // Counting what is covered takes some 40 MB, and time: what is measured here is the service as it is.
  http = new HttpClient(await TestService.start({ NODE_V8_COVERAGE: '' }));
  await listed(await http.service.writing(fill));
});
afterAll(async () => {
  await fair.end();
  await issuer.stop();
  await http.service.remove();
});

/** A new process with these settings, so that the memory of one attack is not counted as the next one's. */
const serve = async (settings: Besides['settings']): Promise<void> => {
  http.service.logged.length = 0;
  await http.service.stop();
  await http.service.start(settings?.());
  await http.service.ready();
};

/** Fills the log with plants of the fair owner, the longest lists, and a plant with a long history. */
const fill = async (log: EventLog): Promise<Position> => {
  const longest = '\u{1f335}'.repeat(200);
  const plants = [
    ...Array.from({ length: 20 }, (_, id) => ({ owner: OWNERS.fair, plant: created(id) })),
    ...PAST_OWNERS.map((owner) => ({ owner, plant: created(1) })),
    ...Array.from({ length: PLANTS }, (_, id) => ({
      owner: OWNERS.greedy,
      plant: created(id, longest, longest),
    })),
  ];
  for (let first = 0; first < plants.length; first += 100)
    await Promise.all(
      plants
        .slice(first, first + 100)
        .map(({ owner, plant }) =>
          log.append(plantStream(owner, plant.data.id), 'none', [
            { ...plant, id: randomUUID(), metadata: sampleMetadata({ actor: { sub: owner } }) },
          ]),
        ),
    );
  const metadata = sampleMetadata({ actor: { sub: OWNERS.greedy } });
  const stream = plantStream(OWNERS.greedy, BUSY_PLANT);
  let { position } = await log.append(stream, 'none', [
    { ...created(BUSY_PLANT), id: randomUUID(), metadata },
  ]);
  for (let first = 1; first < EVENTS; first += 500) {
    const events: NewEvent[] = Array.from({ length: Math.min(500, EVENTS - first) }, (_, index) => ({
      ...((first + index) % 2 ? deleted(BUSY_PLANT) : created(BUSY_PLANT)),
      id: randomUUID(),
      metadata,
    }));
    ({ position } = await log.append(stream, BigInt(first - 1), events));
  }
  return position;
};

/** Waits until lists contain everything up to a position. */
const listed = async (position: Position): Promise<void> => {
  const token = await http.token(OWNERS.greedy);
  for (;;) {
    const { status } = await http.list('?limit=1', { token, headers: { 'plants-position': position } });
    if (status === 200) return;
  }
};

/** The most memory that the service has had so far, in bytes (proc_pid_status(5)). */
const mostMemory = (): number => {
  const status = readFileSync(`/proc/${http.service.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
};

const megabytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MB`;
const milliseconds = ({ p50, p99, greatest }: FairFigures): string =>
  [p50, p99, greatest].map((time) => time.toFixed(1)).join(' / ');

/** True for a line of the log about a refused or aborted request without a valid token. */
const isOfStranger = ({ owner, code, msg }: Record<string, unknown>): boolean =>
  owner === undefined && (code !== undefined || msg === 'request aborted');

interface Besides {
  /** Settings of the service. */
  readonly settings?: () => Readonly<Record<string, string>>;
  readonly token?: (owner: string) => Promise<string>;
  /** Called when the service has been asked once, before the attack. */
  readonly before?: () => void;
  /** Requests of a fair client during the attack, beside its lists. */
  readonly meanwhile?: () => Promise<void>;
  readonly after?: () => void;
}

let fetchesBefore = 0;
const BESIDES: Partial<Record<AttackName, Besides>> = {
  'made-up tokens': {
    settings: () => ({
      AUTH_ISSUER: 'https://issuer.example',
      AUTH_AUDIENCE: 'plants',
      AUTH_JWKS_URL: issuer.jwksUrl.href,
    }),
    token: (sub) => mint.token({ sub }),
    before: () => {
      issuer.answer(500, 'broken');
      fetchesBefore = issuer.fetches();
    },
    after: () => {
      expect(issuer.fetches() - fetchesBefore).toBeLessThan(10 + SECONDS / 5);
    },
  },
  'two owners who ask for the past without a pause': {
    meanwhile: async () => {
      const token = await http.token(PAST_OWNERS[2]);
      for (let number = 0; number < Math.max(1, SECONDS / 6); number += 1) {
        const { status, text } = await http.list(`?asOf=${encodeURIComponent(new Date().toISOString())}`, {
          token,
        });
        expect([status, text]).toEqual([200, '[{"name":"Monstera deliciosa","tag":"aroid"}]']);
      }
    },
  },
};

/** The most memory of another process is Linux's. */
const onLinux = process.platform === 'linux' ? describe : describe.skip;

onLinux('lists of others, and the memory of the service, beside one hostile client', () => {
  it.each(Object.keys(ATTACKS) as AttackName[])(
    '%s',
    async (name) => {
      const { settings, token = (owner: string) => http.token(owner), ...besides } = BESIDES[name] ?? {};
      await serve(settings);
      const { port } = http.service;
      const order = { port, token: await token(OWNERS.fair), path: '/plants', perSecond: FAIR_RATE };
      const target: Target = {
        port,
        token: await http.token(OWNERS.greedy, 'plants:read plants:write plants:audit'),
        others: [await http.token(PAST_OWNERS[0]), await http.token(PAST_OWNERS[1])],
      };
      await http.send({ path: '/docs' }); // the documents are made when they are first asked for
      await fair.run({ ...order, seconds: LONG ? 2 : 0.1 });
      const without = await fair.run({ ...order, seconds: SECONDS / 2 });
      besides.before?.();
      const stop = attack(name, target);
      const [during] = await Promise.all([
        fair.run({ ...order, seconds: SECONDS }),
        besides.meanwhile?.() ?? Promise.resolve(),
      ]);
      const load = loadavg()[0]?.toFixed(1) ?? '';
      const memory = mostMemory();
      await stop();
      const lines = http.service.logged.filter(isOfStranger).length;
      if (LONG)
        process.stdout.write(
          `| ${name} | ${megabytes(memory)} | ${milliseconds(without)} | ${milliseconds(during)} | ${(during.p99 / without.p99).toFixed(1)} | ${lines} | ${load} |\n`,
        );
      expect(during.failed).toEqual({});
      expect(memory).toBeLessThan(MOST_MEMORY);
      expect(lines).toBeLessThan(STRANGERS_LINES);
      besides.after?.();
      if (LONG) expect(during.p99).toBeLessThan(MOST_SLOWER * without.p99);
    },
    (SECONDS * 3 + 60) * 1_000,
  );
});

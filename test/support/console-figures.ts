/**
 * Measures the console in Chromium, for docs/console.md: when something is seen on a slow processor, what three open
 * pages cost the service, and what one keeps of memory while its list changes ten times a second: npm run
 * console:figures -- MINUTES
 */
import { setTimeout as delay } from 'node:timers/promises';
import { processorSeconds } from '../../bench/usage.js';
import { ensureChromium, launchChromium } from './chromium.js';
import { Beside } from './console-page.js';
import { HOUSEPLANTS } from './houseplants.js';
import { TestService } from './service.js';

/** Factor by which the processor is slower than this machine's. */
const SLOWER = 4;

const LOAD_MS = 4_000;
const CLIENTS = 16;
const ROUNDS = 5;

/** Changes of the list in a second. */
const CHANGES = 10;

const executablePath = ensureChromium();
if (executablePath === undefined) process.exit(1);
const minutes = Number(process.argv[2] ?? '10');

const service = await TestService.start();
await service.ready();
const beside = await Beside.of(service);
await beside.add(...HOUSEPLANTS);
const browser = await launchChromium(executablePath);
const page = await browser.newPage();
const devTools = await page.context().newCDPSession(page);
await devTools.send('Emulation.setCPUThrottlingRate', { rate: SLOWER });
await page.goto(`${service.url}/console/plants#token=${await service.token('alice')}`);
await page.getByText('100 plants on this page').waitFor();
const [paint, listed] = await page.evaluate<[number, number]>(
  "[performance.getEntriesByName('first-contentful-paint')[0].startTime, performance.now()]",
);
process.stdout.write(
  `first paint ${Math.round(paint)} ms, list ${Math.round(listed)} ms, at ${SLOWER} times the work\n`,
);
await devTools.send('Emulation.setCPUThrottlingRate', { rate: 1 });

let plantId = 1_000;
const authorization = `Bearer ${await service.token('bob')}`;
await (await Beside.of(service, 'bob')).add(...HOUSEPLANTS.slice(0, 20));
const requests = {
  list: () => fetch(`${service.url}/plants?limit=20`, { headers: { authorization } }),
  create: () =>
    fetch(`${service.url}/plants`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ id: (plantId += 1), name: 'Fern', tag: 'house' }),
    }),
};

/** Processor time of the service for one request, in microseconds. */
const costOf = async (request: () => Promise<Response>): Promise<number> => {
  const [before, end] = [processorSeconds([service.pid]), performance.now() + LOAD_MS];
  let count = 0;
  const client = async (): Promise<void> => {
    for (; performance.now() < end; count += 1) await (await request()).arrayBuffer();
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return (1e6 * (processorSeconds([service.pid]) - before)) / count;
};

/** The three pages: an owner's, an auditor's, an operator's. */
const openThree = async () =>
  Promise.all(
    [
      ['plants', await service.token('bob')],
      ['log', await service.token('ada', 'plants:audit')],
      ['operations', await service.token('olga', 'plants:operate')],
    ].map(async ([path, token]) => {
      const opened = await browser.newPage();
      await opened.goto(`${service.url}/console/${path}#token=${token}`);
      await opened.getByText('Live', { exact: true }).waitFor();
      return opened;
    }),
  );
await page.goto('about:blank'); // it is a console, too
for (const [name, request] of Object.entries(requests)) {
  const costs: [without: number, beside: number][] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const without = await costOf(request);
    const opened = await openThree();
    costs.push([without, await costOf(request)]);
    for (const one of opened) await one.close();
  }
  const told = costs.map(([without, beside]) => `${without.toFixed(0)} ${beside.toFixed(0)}`);
  process.stdout.write(`${name}, µs without and beside three consoles: ${told.join(', ')}\n`);
}
await page.goto(`${service.url}/console/plants#token=${await service.token('alice')}`);
await page.getByText('100 plants on this page').waitFor();

/** Bytes of the page's objects, garbage aside. */
const heap = async (): Promise<number> => {
  await devTools.send('HeapProfiler.collectGarbage');
  return (await devTools.send('Runtime.getHeapUsage')).usedSize;
};

await page.evaluate(
  "window.longest = 0; new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration); }).observe({ type: 'longtask' })",
);
for (let minute = 0; ; minute += 1) {
  process.stdout.write(`${minute} min: ${((await heap()) / 2 ** 20).toFixed(2)} MiB\n`);
  if (minute >= minutes) break;
  for (const end = Date.now() + 60_000; Date.now() < end;) {
    await delay(2_000 / CHANGES);
    await beside.add({ id: 0, name: `Change at ${Date.now()}`, tag: '' });
    await beside.delete(0);
  }
}
process.stdout.write(`longest task: ${String(await page.evaluate('window.longest'))} ms\n`);
await browser.close();
await service.remove();

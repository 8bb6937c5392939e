/**
 * Measures the console in Chromium, for docs/console.md: when something is seen on a slow processor, and what it keeps of
 * memory while its list changes ten times a second: npm run console:figures -- MINUTES
 */
import { chromium } from 'playwright-core';
import { setTimeout as delay } from 'node:timers/promises';
import { ensureChromium } from './chromium.js';
import { Beside } from './console-page.js';
import { HOUSEPLANTS } from './houseplants.js';
import { TestService } from './service.js';

/** How much slower than this machine the processor is. */
const SLOWER = 4;

/** Changes of the list in a second. */
const CHANGES = 10;

const executablePath = ensureChromium();
if (executablePath === undefined) process.exit(1);
const minutes = Number(process.argv[2] ?? '10');

const service = await TestService.start();
await service.ready();
const beside = await Beside.of(service);
await beside.add(...HOUSEPLANTS);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
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

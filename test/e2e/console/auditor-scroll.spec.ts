import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { type Page } from 'playwright-core';
import { describeInBrowser, TestBrowser } from '../../support/browser.js';
import { HttpClient } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { until } from '../../support/waiting.js';

/** Events of the log that is scrolled: CONSOLE_EVENTS=100000 for the figures of docs/console.md. */
const EVENTS = Number(process.env.CONSOLE_EVENTS ?? 3_000);

/** For how long events come while the log is looked at, in seconds, and how many in a second. */
const [LIVE_SECONDS, LIVE_RATE] = process.env.CONSOLE_EVENTS === undefined ? [2, 200] : [60, 500];

/** Lines of one import: the most that the API takes. */
const LINES = 10_000;

/** The longest task of the page's main thread, in milliseconds. Asserted only where the figures are made. */
const LONGEST_TASK_MS = 100;

/** Rows in the document at a time, whatever the log holds. */
const MOST_ROWS = 60;

describeInBrowser('a long log in the console', () => {
  let service: TestService;
  let http: HttpClient;
  let browser: TestBrowser;
  beforeAll(async () => {
    service = await TestService.start();
    await service.ready();
    http = new HttpClient(service);
    for (let from = 0; from < EVENTS; from += LINES) await addMany(from, Math.min(LINES, EVENTS - from));
    await until(
      async () => Number((await http.send({ path: '/log/checkpoint' })).text.split('\n')[1]) >= EVENTS,
    );
    browser = await TestBrowser.start();
  });
  afterAll(async () => {
    await browser.close();
    await http.finish();
  });

  /** Plants with ids from one on. */
  const addMany = async (from: number, count: number): Promise<void> => {
    const lines = Array.from({ length: count }, (_, at) =>
      JSON.stringify({ id: from + at, name: `Fern ${from + at}`, tag: 'house' }),
    );
    const answer = await http.send({
      method: 'POST',
      path: '/plants/import',
      token: await http.token('alice'),
      headers: { 'content-type': 'application/x-ndjson' },
      body: lines.join('\n'),
    });
    expect(answer.status).toBe(200);
  };

  /** The longest task of the page so far, in milliseconds, and how many took more than 50. */
  const tasksOf = (page: Page): Promise<{ longest: number; count: number }> =>
    page.evaluate(`(() => {
      const tasks = globalThis.longTasks;
      return { longest: Math.max(0, ...tasks), count: tasks.length };
    })()`);

  /** The log in a page that counts its long tasks. */
  const openLog = async (): Promise<Page> => {
    const page = await browser.page(service.url);
    await page.addInitScript(`globalThis.longTasks = [];
      new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) globalThis.longTasks.push(duration);
      }).observe({ type: 'longtask', buffered: true });`);
    await page.goto(`/console/log#token=${await service.token('auditor', 'plants:audit')}`);
    await page.getByText('Live', { exact: true }).waitFor();
    await page.getByRole('list', { name: 'Events, the newest first' }).waitFor();
    return page;
  };
  /** The heap of the page's scripts after a collection, in MB. */
  const heapOf = async (page: Page): Promise<number> => {
    const client = await page.context().newCDPSession(page);
    await client.send('HeapProfiler.collectGarbage');
    const { usedSize } = await client.send('Runtime.getHeapUsage');
    await client.detach();
    return usedSize / 1e6;
  };
  /** Prints the long tasks since the last time; where the figures are made, none may be too long. */
  const reportTasks = async (page: Page, what: string): Promise<void> => {
    const { longest, count } = await tasksOf(page);
    await page.evaluate('globalThis.longTasks.length = 0');
    process.stderr.write(`${what}: ${count} tasks above 50 ms, the longest of ${Math.round(longest)} ms\n`);
    if (process.env.CONSOLE_EVENTS !== undefined) expect(longest).toBeLessThan(LONGEST_TASK_MS);
  };

  it('is scrolled from its end to its beginning, with a few rows in the document', async () => {
    const page = await openLog();
    const list = page.getByRole('list', { name: 'Events, the newest first' });
    await list.getByText(`Fern ${EVENTS - 1}`, { exact: true }).waitFor();
    await page.evaluate('globalThis.longTasks.length = 0');
    for (let step = 1; step <= 50; step++) {
      await page.evaluate(`(() => {
        const box = document.querySelector('.virtual');
        box.scrollTop = (box.scrollHeight - box.clientHeight) * ${step / 50};
      })()`);
      await page.evaluate(
        'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
      );
      expect(await list.getByRole('listitem').count()).toBeLessThan(MOST_ROWS);
    }
    await list.getByText('Fern 0', { exact: true }).waitFor();
    await reportTasks(page, `${EVENTS} events scrolled`);

    // New rows do not move a list that was scrolled down.
    await addMany(EVENTS, 1);
    await page.getByRole('button', { name: '1 newer: go there' }).click();
    await list.getByText(`Fern ${EVENTS}`, { exact: true }).waitFor();
    await browser.finish();
  });

  it('is followed while many events come, and keeps no more of them', async () => {
    const page = await openLog();
    const list = page.getByRole('list', { name: 'Events, the newest first' });
    const before = await heapOf(page);
    let id = EVENTS + 1;
    const end = performance.now() + LIVE_SECONDS * 1_000;
    for (let sent = 0; performance.now() < end; sent += LIVE_RATE / 10) {
      await addMany(id, LIVE_RATE / 10);
      id += LIVE_RATE / 10;
      await delay(Math.max(0, end - LIVE_SECONDS * 1_000 + (sent / LIVE_RATE) * 1_000 - performance.now()));
    }
    await list.getByText(`Fern ${id - 1}`, { exact: true }).waitFor();
    expect(await list.getByRole('listitem').count()).toBeLessThan(MOST_ROWS);
    await reportTasks(page, `${id - EVENTS - 1} events in ${LIVE_SECONDS} s`);
    const after = await heapOf(page);
    process.stderr.write(
      `memory of the page: ${before.toFixed(1)} MB before, ${after.toFixed(1)} MB after\n`,
    );
    await browser.finish();
  });
});

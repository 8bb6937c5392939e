/** Takes the pictures of docs/console.md, of `plants demo`: npm run console:pictures. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Page } from 'playwright-core';
import { ensureChromium, launchChromium } from './chromium.js';
import { CliProcess } from './cli-process.js';

const FOLDER = 'docs/console';

const executablePath = ensureChromium();
if (executablePath === undefined) process.exit(1);

const demo = CliProcess.piped(['demo', '--no-open', '--json'], {});
await demo.says(/"link"/);
const { link = '' } = JSON.parse(demo.stdout.split('\n')[0] ?? '') as { link?: string };
const [base = '', fragment = ''] = link.split('#');
const browser = await launchChromium(executablePath);
mkdirSync(FOLDER, { recursive: true });

const take = async (name: string, path: string, show: (page: Page) => Promise<void>): Promise<void> => {
  const context = await browser.newContext({
    viewport: { width: 1_120, height: 700 },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
  });
  const page = await context.newPage();
  await page.goto(`${base}/${path}#${fragment}`);
  await show(page);
  await page.screenshot({ path: join(FOLDER, `${name}.png`) });
  await context.close();
};

await take('plants', 'plants?plant=6', async (page) => {
  await page.getByRole('listitem').nth(2).waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
});
await take('log', 'log?event=6', async (page) => {
  await page.getByRole('list', { name: 'Events, the newest first' }).getByRole('listitem').first().waitFor();
  await page.getByRole('region', { name: 'Event 6' }).getByText('Consistent, but not proven').waitFor();
});
await take('operations', 'operations', async (page) => {
  await page
    .getByRole('status')
    .getByRole('heading', { name: /^All is well/ })
    .waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
});
await browser.close();
demo.type('q\n');
await demo.ended();

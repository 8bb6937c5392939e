import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect } from '@jest/globals';
import axe from 'axe-core';
import { type Browser, type BrowserContext, type Page } from 'playwright-core';
import { ensureChromium, launchChromium } from './chromium.js';

const PICTURES = 'build/console-screenshots';

const executablePath = ensureChromium();

/** `describe` where there is a browser; else its tests are skipped, which was said. */
export const describeInBrowser = executablePath === undefined ? describe.skip : describe;

/** Milliseconds, on a machine that does something else as well. */
const SEEN_MS = 60_000;

interface PageLook {
  /** In pixels. */
  readonly width?: number;
  readonly dark?: boolean;
  /** Origins that it may ask beside its own. */
  readonly others?: readonly string[];
}

/** A browser for one file of tests, with everything that it complained of. */
export class TestBrowser {
  /** Errors of scripts, reports of the Content Security Policy, and requests that left the service. */
  readonly complaints: string[] = [];
  readonly #contexts: BrowserContext[] = [];

  #browser: Browser | undefined;

  static async start(): Promise<TestBrowser> {
    const browser = new TestBrowser();
    await browser.launch();
    return browser;
  }

  async launch(): Promise<void> {
    if (executablePath === undefined) throw new Error('there is no browser');
    this.#browser = await launchChromium(executablePath);
  }

  async close(): Promise<void> {
    await this.#browser?.close();
  }

  /** A new page in a browser that knows nothing of the others, for a service at this address. */
  async page(origin: string, { width = 1280, dark = false, others = [] }: PageLook = {}): Promise<Page> {
    const height = width < 600 ? 780 : width > 2_000 ? 1_440 : 860;
    if (!this.#browser) throw new Error('no browser was started');
    const context = await this.#browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? 'dark' : 'light',
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
      baseURL: origin,
    });
    context.setDefaultTimeout(SEEN_MS);
    this.#contexts.push(context);
    const page = await context.newPage();
    page.on('pageerror', (error) => this.complaints.push(`error: ${error.message}`));
    page.on('console', (message) => {
      const { url } = message.location();
      // The browser notes each answer of the API that is an error, and each request that it could not send.
      const isAnswer = message.text().startsWith('Failed to load resource') && !url.includes('/console/_');
      if (!isAnswer && ['error', 'warning'].includes(message.type()))
        this.complaints.push(`${message.type()}: ${message.text()} ${url}`);
    });
    context.on('request', (request) => {
      const url = new URL(request.url());
      if (url.protocol !== 'blob:' && ![new URL(origin).origin, ...others].includes(url.origin))
        this.complaints.push(`another origin: ${request.url()}`);
    });
    return page;
  }

  /** Closes all pages. Throws for errors on them that were not expected. */
  async finish(): Promise<void> {
    for (const context of this.#contexts.splice(0)) await context.close();
    expect(this.complaints.splice(0)).toEqual([]);
  }
}

/** A browser for the tests of a block; after each its pages are closed, and nothing may have been wrong with them. */
export const browsing = (): TestBrowser => {
  const browser = new TestBrowser();
  beforeAll(() => browser.launch());
  afterEach(() => browser.finish());
  afterAll(() => browser.close());
  return browser;
};

/** Takes a picture of the page, for a later look at the run. */
export const picture = async (page: Page, name: string): Promise<void> => {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
};

/** Expects no finding of axe-core, by the rules of WCAG 2.2 AA and good practice. */
export const expectAccessible = async (page: Page): Promise<void> => {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<axe.AxeResults>('axe.run()');
  expect(
    violations.map(({ id, nodes }) => [
      id,
      ...nodes.map(({ html, failureSummary }) => `${html} ${failureSummary ?? ''}`),
    ]),
  ).toEqual([]);
};

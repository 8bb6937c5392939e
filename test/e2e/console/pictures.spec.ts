import { beforeAll, expect, it } from '@jest/globals';
import { type Page } from 'playwright-core';
import { browsing, describeInBrowser, expectAccessible, picture } from '../../support/browser.js';
import { Beside, openConsole } from '../../support/console-page.js';
import { HOUSEPLANTS } from '../../support/houseplants.js';
import { served } from '../../support/http-client.js';

const LOOKS = [360, 1_280, 2_560].flatMap((width) => [
  { width, dark: false },
  { width, dark: true },
]);

describeInBrowser('the console, at every width, in light and dark', () => {
  const browser = browsing();
  const { service } = served();
  beforeAll(async () => {
    const beside = await Beside.of(service);
    await beside.add(...HOUSEPLANTS);
    await beside.delete(3);
    await beside.add({ id: 3, name: "Epipremnum aureum 'Neon'", tag: 'aroid' });
  });

  const looksWell = async (page: Page, name: string): Promise<void> => {
    await picture(page, name);
    await expectAccessible(page);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  };

  it.each(LOOKS)('$width pixels, dark: $dark', async ({ width, dark }) => {
    const look = `${width}-${dark ? 'dark' : 'light'}`;
    const page = await openConsole(browser, service, { path: 'plants?plant=3', width, dark });
    await page.getByRole('listitem').nth(2).waitFor();
    await page.getByText('100 plants on this page').waitFor();
    await looksWell(page, `plants-${look}`);
    await page.getByRole('button', { name: 'Import' }).click();
    await page.getByLabel('Or paste its lines').fill('{"name":"Aloe vera","tag":"","id":1000}\nnonsense');
    await page.getByText('2 plants in NDJSON').waitFor();
    await looksWell(page, `import-${look}`);
    await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
    await page.getByText('The import is done').waitFor();
    await looksWell(page, `imported-${look}`);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'As it was' }).click();
    await page.getByRole('slider').waitFor();
    await looksWell(page, `past-${look}`);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await looksWell(page, `sign-in-${look}`);
  });
});

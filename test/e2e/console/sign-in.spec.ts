import { expect, it } from '@jest/globals';
import { type Page } from 'playwright-core';
import { browsing, describeInBrowser, expectAccessible } from '../../support/browser.js';
import { served } from '../../support/http-client.js';

describeInBrowser('signing in', () => {
  const browser = browsing();
  const { service } = served();

  const open = async (path: string): Promise<Page> => {
    const page = await browser.page(service.url);
    await page.goto(path);
    return page;
  };

  it('takes a token that is pasted, and keeps it in memory alone', async () => {
    const page = await open('/console');
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await expectAccessible(page);
    await page.getByLabel('Token').fill('no token');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This is not a token').waitFor();
    await page.getByLabel('Token').fill(await service.token('alice'));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Plants' }).waitFor();
    await page.getByText('alice', { exact: true }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/console/plants');
    expect(await page.evaluate('[sessionStorage.length, localStorage.length, document.cookie]')).toEqual([
      0,
      0,
      '',
    ]);
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  it('keeps the token until the tab is closed where that was asked for, and forgets it with "Sign out"', async () => {
    const page = await open('/console');
    await page.getByLabel('Token').fill(await service.token('alice'));
    await page.getByLabel('Keep it until this tab is closed').check();
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Plants' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Plants' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  it('takes the token of a link, and removes it from the address', async () => {
    const page = await open(`/console/plants?q=fern#token=${await service.token('bob')}`);
    await page.getByText('bob', { exact: true }).waitFor();
    expect(page.url()).toBe(`${service.url}/console/plants?q=fern`);
    expect(await page.evaluate('history.length')).toBeLessThanOrEqual(2);
  });

  it('says what a token does not allow', async () => {
    const page = await open(`/console/plants#token=${await service.token('bob', 'plants:audit')}`);
    await page.getByText('Your token does not allow this page.').waitFor();
    await page.getByText('plants:read').waitFor();
  });
});

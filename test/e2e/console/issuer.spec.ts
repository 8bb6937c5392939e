import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { type Page } from 'playwright-core';
import { describeInBrowser, expectAccessible, TestBrowser } from '../../support/browser.js';
import { type OidcIssuer, startOidcIssuer } from '../../support/oidc-issuer.js';
import { TestService } from '../../support/service.js';

describeInBrowser('signing in at an issuer', () => {
  let issuer: OidcIssuer;
  let service: TestService;
  let browser: TestBrowser;
  beforeAll(async () => {
    issuer = await startOidcIssuer('alice');
    service = await TestService.start(issuer.settings);
    await service.ready();
    browser = await TestBrowser.start();
  });
  afterEach(() => browser.finish());
  afterAll(async () => {
    await browser.close();
    await service.remove();
    await issuer.stop();
  });

  const open = async (path: string): Promise<Page> => {
    const page = await browser.page(service.url, { others: [issuer.url] });
    await page.goto(path);
    return page;
  };
  const signIn = (page: Page) =>
    page.getByRole('button', { name: `Sign in at ${new URL(issuer.url).host}` }).click();

  it('goes there and back to the page that was asked for, as the owner that the token names', async () => {
    const page = await open('/console/plants?q=fern');
    await expectAccessible(page);
    await signIn(page);
    await page.getByText('alice', { exact: true }).waitFor();
    expect(page.url()).toBe(`${service.url}/console/plants?q=fern`);
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
    expect(Object.fromEntries(issuer.asked.at(-1) ?? [])).toMatchObject({
      response_type: 'code',
      client_id: 'plants-console',
      redirect_uri: `${service.url}/console/`,
      code_challenge_method: 'S256',
      scope: 'openid plants:read plants:write plants:audit plants:operate plants:erase',
    });
    await page.getByLabel('Name', { exact: true }).fill('Fern');
    await page.getByLabel('Id', { exact: true }).fill('1');
    await page.keyboard.press('Enter');
    await page.getByRole('row').filter({ hasText: 'Fern' }).waitFor();
  });

  it('takes no code that this tab has not asked for', async () => {
    const page = await open('/console/?code=stolen&state=invented');
    await page.getByText('This tab has not asked anyone to sign in.').waitFor();
    expect(page.url()).toBe(`${service.url}/console/`);
  });

  it('says why the issuer refuses', async () => {
    issuer.refuse('You may not use plants');
    const page = await open('/console');
    await signIn(page);
    await page.getByText('The issuer has refused: You may not use plants.').waitFor();
  });

  it('lets requests go there, and nowhere else', async () => {
    const answer = await fetch(`${service.url}/console`);
    expect(answer.headers.get('content-security-policy')).toContain(`connect-src 'self' ${issuer.url};`);
  });
});

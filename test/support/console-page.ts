import { type Page } from 'playwright-core';
import { type TestBrowser } from './browser.js';
import { type TestService } from './service.js';
import { untilSeen } from './waiting.js';

interface Opened {
  readonly owner?: string;
  readonly scope?: string;
  /** The page below /console, and its query. */
  readonly path?: string;
  readonly width?: number;
  readonly dark?: boolean;
}

/** Opens the console of a service as `plants console` does. */
export const openConsole = async (
  browser: TestBrowser,
  service: TestService,
  { owner = 'alice', scope, path = 'plants', ...look }: Opened = {},
): Promise<Page> => {
  const page = await browser.page(service.url, look);
  await page.goto(`/console/${path}#token=${await service.token(owner, scope)}`);
  return page;
};

/** A client of an owner, who does something beside the console. */
export class Beside {
  private constructor(
    private readonly service: TestService,
    private readonly headers: Readonly<Record<string, string>>,
  ) {}

  static async of(service: TestService, owner = 'alice'): Promise<Beside> {
    return new Beside(service, { authorization: `Bearer ${await service.token(owner)}` });
  }

  async add(
    ...plants: readonly { readonly id: number; readonly name: string; readonly tag: string }[]
  ): Promise<void> {
    const body = plants.map((plant) => JSON.stringify(plant)).join('\n');
    const headers = { ...this.headers, 'content-type': 'application/x-ndjson' };
    const answer = await fetch(`${this.service.url}/plants/import`, { method: 'POST', headers, body });
    const text = await answer.text();
    if (!text.includes(`"created":${plants.length}`)) throw new Error(`not added: ${answer.status} ${text}`);
  }

  async delete(id: number): Promise<void> {
    const answer = await fetch(`${this.service.url}/plants/${id}`, {
      method: 'DELETE',
      headers: this.headers,
    });
    if (!answer.ok) throw new Error(`not deleted: ${answer.status}`);
  }

  /** The proof of the list, as the service gives it once it is signed. */
  async proof(): Promise<string> {
    const ask = () => fetch(`${this.service.url}/log/list`, { headers: this.headers });
    return (await untilSeen(ask, ({ ok }) => ok)).text();
  }

  async list(): Promise<unknown> {
    return (await fetch(`${this.service.url}/plants?view=full`, { headers: this.headers })).json();
  }
}

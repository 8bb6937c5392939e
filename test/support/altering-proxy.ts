import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';

/** What is passed on, as an owner's client sees it. */
export interface PassedOn {
  readonly path: string;
  readonly status: number;
  readonly body: string;
}

/** An HTTP proxy before a service, which alters answers: a service that lies. */
export class AlteringProxy {
  /** What a client gets in place of an answer; undefined: the answer as it is. */
  alter: (answer: PassedOn) => Partial<PassedOn> | Promise<Partial<PassedOn>> | undefined = () => undefined;
  /** The requests of so far: their methods, paths and tokens. */
  readonly requests: { readonly path: string; readonly authorization: string | undefined }[] = [];

  private constructor(private readonly server: Server) {}

  static async start(target: string): Promise<AlteringProxy> {
    const server = createServer((request, response) => {
      const { url: path = '', headers } = request;
      const { authorization } = headers;
      proxy.requests.push({ path, authorization });
      const pass = async (): Promise<void> => {
        const answer = await fetch(`${target}${path}`, {
          headers: authorization === undefined ? {} : { authorization },
        });
        const passed = { path, status: answer.status, body: await answer.text() };
        const { status, body } = { ...passed, ...(await proxy.alter(passed)) };
        const [link, position] = [answer.headers.get('link'), answer.headers.get('plants-position')];
        response.writeHead(status, {
          ...(link === null ? {} : { link }),
          ...(position === null ? {} : { 'plants-position': position }),
        });
        response.end(body);
      };
      pass().catch(() => response.destroy());
    });
    const proxy = new AlteringProxy(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

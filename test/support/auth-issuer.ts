import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { type JWK } from 'jose';

/** An issuer's key endpoint on a free port of this machine. */
export interface Issuer {
  readonly jwksUrl: URL;
  fetches(): number;
  publish(...keys: JWK[]): void;
  /** Answers with this status and text instead of keys. */
  answer(status: number, text: string): void;
  stop(): Promise<void>;
}

export const startIssuer = async (...keys: JWK[]): Promise<Issuer> => {
  let fetches = 0;
  let status = 200;
  let text = JSON.stringify({ keys });
  const server = createServer((_request, response) => {
    fetches += 1;
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    jwksUrl: new URL(`http://127.0.0.1:${port}/jwks.json`),
    fetches: () => fetches,
    publish: (...published) => {
      text = JSON.stringify({ keys: published });
    },
    answer: (...answer) => {
      [status, text] = answer;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
};

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { TEST_CERTIFICATE, TEST_KEY } from '../support/eventstore/certificate.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** Makes the script's pauses none. */
const NO_PAUSES = `
  import timers from 'node:timers/promises';
  import { syncBuiltinESMExports } from 'node:module';
  timers.setTimeout = async () => undefined;
  syncBuiltinESMExports();
`;

describe('deploy/eventstoredb-account.js', () => {
  let folder: string;
  let server: Server;
  let requests: number;
  let status: number;
  beforeEach(async () => {
    folder = temporaryFolder();
    requests = 0;
    server = createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (request, response) => {
      requests += 1;
      request.resume();
      response.writeHead(status).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    server.close();
    server.closeAllConnections();
  });

  const run = async (): Promise<{ exit: unknown; stderr: string }> => {
    const [ca, noPauses] = [join(folder, 'ca.crt'), join(folder, 'no-pauses.mjs')];
    writeFileSync(ca, TEST_CERTIFICATE);
    writeFileSync(noPauses, NO_PAUSES);
    const child = spawn(
      process.execPath,
      ['--no-warnings', `--import=${noPauses}`, 'deploy/eventstoredb-account.js'],
      {
        env: {
          EVENTSTORE: `localhost:${(server.address() as AddressInfo).port}`,
          EVENTSTORE_CA: ca,
          EVENTSTORE_ADMIN_PASSWORD: 'sesame',
          EVENTSTORE_PASSWORD: 'sesame-2',
        },
      },
    );
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
    return { exit: child.exitCode, stderr };
  };

  it('gives up a wrong password of the administrator early, with one line', async () => {
    status = 401;
    expect(await run()).toEqual({
      exit: 1,
      stderr: 'EVENTSTORE_ADMIN_PASSWORD is not the one that this EventStoreDB was first started with\n',
    });
    expect(requests).toBe(20);
  });

  it('says in one line what a server answers that never takes the account', async () => {
    status = 500;
    expect(await run()).toEqual({ exit: 1, stderr: 'EventStoreDB did not take the account: 500\n' });
    expect(requests).toBe(60);
  });
});

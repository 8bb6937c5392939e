import { expect, it } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { type Answer, type RawConnection, served } from '../../support/http-client.js';

const http = served();

/** The answer to a request on a connection that was opened before. */
const ask = async (connection: RawConnection, path: string): Promise<Answer | undefined> => {
  const before = connection.answers.length;
  connection.write(`GET ${path} HTTP/1.1\r\nHost: here\r\n\r\n`);
  return (await connection.answered(before + 1)).at(-1);
};

/** Limits and open files of another process are Linux's. */
const onLinux = process.platform === 'linux' ? it : it.skip;

onLinux(
  '/docs is there again once file descriptors are, after it could not be made for want of them',
  async () => {
    const connection = http.connect();
    expect(await ask(connection, '/health/live')).toMatchObject({ status: 200 });
    const { pid } = http.service;
    const open = (): number => readdirSync(`/proc/${pid}/fd`).length;
    const before = open();
    execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${before + 20}:`]);
    const others: Socket[] = [];
    const refused = new AbortController();
    while (!refused.signal.aborted) {
      const socket = connect(http.service.port, '127.0.0.1');
      socket
        .on('error', () => undefined)
        .on('close', () => {
          refused.abort();
        });
      others.push(socket);
      await once(socket, 'connect');
      await ask(connection, '/health/live'); // it has accepted what it can
    }
    expect(await ask(connection, '/docs')).toMatchObject({ status: 500 });
    expect(await ask(connection, '/health/live')).toMatchObject({ status: 200 });
    for (const socket of others) socket.destroy();
    while (open() > before + 2) await ask(connection, '/health/live');
    execFileSync('prlimit', [`--pid=${pid}`, '--nofile=1024:']); // loading takes more than 20
    expect(await ask(connection, '/docs')).toMatchObject({ status: 200 });
    connection.cut();
  },
);

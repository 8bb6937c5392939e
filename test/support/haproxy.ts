import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { temporaryFolder } from './temporary-folder.js';

/** Tests that need HAProxy on the PATH say so, and are left out without it. */
export const hasHaproxy = (): boolean => {
  try {
    execFileSync('haproxy', ['-v'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

/** HAProxy with deploy/haproxy.cfg, where only addresses differ: they are ports of this machine. */
export class Haproxy {
  /** Requests that failed, and servers that went down or up. */
  logged = '';
  readonly #folder = temporaryFolder();
  readonly #child: ChildProcess;

  private constructor(
    readonly port: number,
    config: string,
  ) {
    const file = join(this.#folder, 'haproxy.cfg');
    writeFileSync(file, config);
    this.#child = spawn('haproxy', ['-db', '-f', file], { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const output of [this.#child.stdout, this.#child.stderr])
      output?.setEncoding('utf8').on('data', (text: string) => (this.logged += text));
  }

  /** Starts it on `port` before the api processes at `apis`, and waits until it accepts connections. */
  static async start(port: number, apis: readonly [number, number]): Promise<Haproxy> {
    const shipped = readFileSync('deploy/haproxy.cfg', 'utf8');
    const config = shipped
      .replace(/^resolvers docker\n(?: .*\n)*/m, '')
      .replace(/ resolvers docker init-addr \S+/g, '')
      .replace('bind :8080', `bind 127.0.0.1:${port}`)
      .replace(/ api-([12]):3000/g, (_, number: string) => ` 127.0.0.1:${apis[Number(number) - 1] ?? 0}`)
      .replace(/ auditor:3000/g, ` 127.0.0.1:${port}`);
    const haproxy = new Haproxy(port, config);
    while (!(await accepts(port))) {
      if (haproxy.#child.exitCode !== null) throw new Error(`haproxy did not start: ${haproxy.logged}`);
      await delay(20);
    }
    return haproxy;
  }

  /** Ends it at once. */
  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'exit');
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    }).on('error', () => {
      resolve(false);
    });
  });

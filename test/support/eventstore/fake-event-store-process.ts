import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('./fake-event-store-main.js', import.meta.url));

/** A fake EventStoreDB in a process of its own, which can be frozen and thawed as a whole. */
export class FakeProcess {
  readonly #killAtExit = (): void => {
    this.child.kill('SIGKILL');
  };

  private constructor(
    private readonly child: ChildProcess,
    /** The connection string, without credentials. */
    readonly url: string,
  ) {
    process.once('exit', this.#killAtExit);
  }

  static async start(): Promise<FakeProcess> {
    const child = spawn(process.execPath, ['--no-warnings', MAIN], { stdio: ['ignore', 'pipe', 'inherit'] });
    for await (const url of createInterface({ input: child.stdout })) return new FakeProcess(child, url);
    throw new Error('the fake EventStoreDB did not start');
  }

  /** Nothing of it runs any more; its connections stay, and the kernel takes what clients send. */
  freeze(): void {
    this.child.kill('SIGSTOP');
  }

  thaw(): void {
    this.child.kill('SIGCONT');
  }

  /** Kills it: a client that a test has left connected would keep one that is asked to stop. May be called twice. */
  async stop(): Promise<void> {
    process.off('exit', this.#killAtExit);
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}

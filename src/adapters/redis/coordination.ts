import { type Coordination, type Report } from '../../ports/coordination.js';
import { READ_MS, type RedisCalls } from './calls.js';
import { REPORT, REPORTS, RETURN_LEASE, TAKE_LEASE } from './scripts.js';

/** The lease and the reports of one log's processes. */
export class RedisCoordination implements Omit<Coordination, 'isSole'> {
  constructor(private readonly calls: RedisCalls) {}

  takeLease(holder: string, forMs: number): Promise<boolean> {
    const ms = Math.max(1, Math.round(forMs));
    return this.calls.call(READ_MS, async (deadline) => {
      return (await this.calls.runOn(this.calls.keys.lease, TAKE_LEASE, [holder, `${ms}`], deadline)) === 1;
    });
  }

  async returnLease(holder: string): Promise<void> {
    await this.calls.call(READ_MS, (deadline) =>
      this.calls.runOn(this.calls.keys.lease, RETURN_LEASE, [holder], deadline),
    );
  }

  async report(process: string, text: string, forMs: number): Promise<void> {
    await this.calls.call(READ_MS, (deadline) =>
      this.calls.runOn(this.calls.keys.reports, REPORT, [process, text, `${forMs}`], deadline),
    );
  }

  async reports(): Promise<Report[]> {
    const found = await this.calls.call(READ_MS, (deadline) =>
      this.calls.runOn(this.calls.keys.reports, REPORTS, [], deadline),
    );
    return (found as [string, string][])
      .map(([process, text]) => ({ process, text }))
      .sort((a, b) => (a.process < b.process ? -1 : 1));
  }
}

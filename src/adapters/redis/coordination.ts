import { type Coordination, type Report } from '../../ports/coordination.js';
import { READ_MS, type RedisCalls } from './calls.js';
import { REPORT, REPORTS, RETURN_LEASE, TAKE_LEASE } from './scripts.js';

/** The lease and the reports of one log's processes. */
export class RedisCoordination implements Coordination {
  constructor(private readonly calls: RedisCalls) {}

  takeLease(holder: string, forMs: number): Promise<boolean> {
    return this.calls.call(READ_MS, async (deadline) => {
      const taken = await this.calls.run(
        TAKE_LEASE,
        this.calls.keys.slot,
        [this.calls.keys.lease],
        [holder, `${Math.max(1, Math.round(forMs))}`],
        deadline,
      );
      return taken === 1;
    });
  }

  returnLease(holder: string): Promise<void> {
    return this.calls.call(READ_MS, async (deadline) => {
      await this.calls.run(RETURN_LEASE, this.calls.keys.slot, [this.calls.keys.lease], [holder], deadline);
    });
  }

  report(process: string, text: string, forMs: number): Promise<void> {
    return this.calls.call(READ_MS, async (deadline) => {
      const { slot, reports } = this.calls.keys;
      await this.calls.run(REPORT, slot, [reports], [process, text, `${forMs}`], deadline);
    });
  }

  reports(): Promise<Report[]> {
    return this.calls.call(READ_MS, async (deadline) => {
      const { slot, reports } = this.calls.keys;
      const found = (await this.calls.run(REPORTS, slot, [reports], [], deadline)) as [string, string][];
      return found
        .map(([process, text]) => ({ process, text }))
        .sort((a, b) => (a.process < b.process ? -1 : 1));
    });
  }
}

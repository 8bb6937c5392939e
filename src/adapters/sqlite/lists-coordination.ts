import { monotonicMs } from '../../async/runtime.js';
import { type Report } from '../../ports/coordination.js';

/** The lease and the reports of the one process that there is: as Coordination, whose calls it answers at once. */
export class MemoryCoordination {
  #lease: { readonly holder: string; readonly until: number } | undefined;
  readonly #reports = new Map<string, { readonly text: string; readonly until: number }>();

  takeLease(holder: string, forMs: number): boolean {
    const now = monotonicMs();
    if (this.#lease && this.#lease.holder !== holder && this.#lease.until > now) return false;
    this.#lease = { holder, until: now + forMs };
    return true;
  }

  returnLease(holder: string): void {
    if (this.#lease?.holder === holder) this.#lease = undefined;
  }

  report(process: string, text: string, forMs: number): void {
    this.#reports.set(process, { text, until: monotonicMs() + forMs });
  }

  reports(): Report[] {
    const now = monotonicMs();
    for (const [process, { until }] of this.#reports) if (until <= now) this.#reports.delete(process);
    return Array.from(this.#reports, ([process, { text }]) => ({ process, text })).sort((a, b) =>
      a.process < b.process ? -1 : 1,
    );
  }
}

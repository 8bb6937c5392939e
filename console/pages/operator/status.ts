/** The parts of GET /operations/status and GET /operations that this page shows (docs/api.md, "Operations"). */

interface AuditorReport {
  readonly state: string;
  readonly size: number;
  readonly checkpoint?: { readonly size: number; readonly signedAt: string };
  readonly recheckedAt?: string;
  readonly rechecking?: { readonly since: string; readonly events: number };
  readonly witnessing?: {
    readonly witnesses: readonly {
      readonly witness: string;
      readonly state: string;
      readonly size?: number;
      readonly at?: string;
      readonly reason?: string;
    }[];
  };
  readonly signing?: { readonly key: string };
  readonly alarm?: { readonly kind: string; readonly raisedAt: string };
}

export interface ProcessReport {
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly roles: readonly string[];
  readonly version: string;
  readonly address: string;
  readonly since: string;
  readonly projector: { readonly state: string } | null;
  readonly verified?: { readonly at: string; readonly differing: number };
  readonly auditor?: AuditorReport | null;
}

/** An event that cannot be read. */
export interface UnreadEvent {
  readonly position: string;
  readonly stream: string;
  readonly revision: number | string;
  /** newer_version, unknown_type or invalid. */
  readonly kind?: string;
  readonly reason: string;
}

export interface Rebuild {
  readonly rebuild: string;
  readonly requestedAt: string;
  readonly phase: string;
  readonly events: number | null;
  readonly total: number | null;
  readonly eventsPerSecond: number | null;
  readonly share: number | null;
  readonly secondsLeft: number | null;
  readonly problem: string | null;
}

export interface SystemStatus {
  readonly at: string;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  readonly head: string;
  readonly lag: { readonly seconds: number | null; readonly events: number | null };
  readonly processes: readonly ProcessReport[];
  readonly leaseHolder: string | null;
  readonly generations: readonly {
    readonly generation: number;
    readonly active: boolean;
    readonly slowest: string;
    readonly fastest: string;
    readonly behind: number;
    readonly problem: string | null;
  }[];
  readonly rebuild: Rebuild | null;
  readonly lastRebuild: { readonly rebuild: string; readonly outcome: string; readonly at: string } | null;
  readonly erasures: readonly {
    readonly erasure: string;
    readonly state: string;
    readonly reason: string;
    readonly by: string;
    readonly since: string;
  }[];
  readonly wayBack: { readonly generation: number; readonly until: string } | null;
  readonly blocked: UnreadEvent | null;
  readonly parked: { readonly owners: number; readonly events: readonly UnreadEvent[] };
  readonly skipped: readonly {
    readonly stream: string;
    readonly revision: number;
    readonly reason: string;
    readonly by: string;
    readonly at: string;
    readonly inForce: boolean;
  }[];
}

export interface PastOperation {
  readonly position: string;
  readonly operation: string;
  readonly about: string;
  readonly at: string | null;
  readonly by: string;
  readonly client: string | null;
  readonly reason: string | null;
  readonly outcome: string | null;
  readonly outcomeAt: string | null;
  readonly detail: string | null;
}

/**
 * A request that its client named with an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header) was taken
 * on. `fingerprint` tells it from other requests; its events derive their ids from `commandId`, so that whoever
 * runs it again writes nothing twice; and it is decided on what the plant was before `firstRevision`, and on each
 * revision after that, so that whoever runs it, whenever, comes to the same outcome.
 */
export interface RequestAccepted {
  readonly type: 'RequestAccepted';
  readonly data: {
    readonly fingerprint: string;
    readonly commandId: string;
    /** The first revision of the plant's stream that the request's event may get. */
    readonly firstRevision: number;
  };
}

/**
 * The rules refused a named request: the same request is refused again, whatever has happened since. A request
 * that succeeded needs no such event, since the plant's stream holds what it wrote.
 */
export interface RequestRefused {
  readonly type: 'RequestRefused';
  readonly data: { readonly code: RefusalCode; readonly message: string };
}

/** The domain's codes that a named request may have been refused with. */
export type RefusalCode = (typeof REFUSALS)[number];
export const REFUSALS = ['plant_exists', 'plant_not_found'] as const;

/** What can happen to a named request; its stream holds one of each at most. */
export type RequestEvent = RequestAccepted | RequestRefused;

/**
 * A request that its client named with an Idempotency-Key
 * (draft-ietf-httpapi-idempotency-key-header). Its stream holds at most these two events, so that the same key
 * gives the first outcome again, from any process and for as long as the log exists.
 */
export interface RequestAccepted {
  readonly type: 'RequestAccepted';
  /** `fingerprint` tells one request from another, `commandId` is what its events derive their ids from. */
  readonly data: { readonly fingerprint: string; readonly commandId: string };
}

/** The request has its final outcome: a position in the log, or the domain's refusal. */
export interface RequestCompleted {
  readonly type: 'RequestCompleted';
  readonly data: { readonly outcome: RequestOutcome };
}

/** What a named request came to. `refused` holds a DomainErrorCode and the message that went with it. */
export type RequestOutcome =
  | { readonly kind: 'done'; readonly position: string }
  | { readonly kind: 'refused'; readonly code: 'plant_exists' | 'plant_not_found'; readonly message: string };

export type RequestEvent = RequestAccepted | RequestCompleted;

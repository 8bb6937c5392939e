/**
 * A request that its client named with an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header) was
 * accepted. `fingerprint` tells it from other requests; its events derive their ids from `commandId`, so that whoever
 * runs it again writes nothing twice; and it is decided on what the plant was before `firstRevision`, and on each
 * revision after that, so that whoever runs it, whenever, comes to the same outcome. So nothing else has to be
 * written down: a success stands in the plant's stream. A request that the rules refuse has no such event.
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

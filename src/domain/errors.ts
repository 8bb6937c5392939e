/** Codes of the refusals that the domain itself makes; clients match on them, so they never change. */
export type DomainErrorCode = 'plant_exists' | 'plant_not_found' | 'idempotency_key_reused' | 'owner_erasing';

/** A command that the rules refuse. Nothing was written. */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  constructor(
    readonly code: DomainErrorCode,
    message: string,
  ) {
    super(message);
  }
}

export const plantExists = (id: number): DomainError =>
  new DomainError(
    'plant_exists',
    `You already have a plant with the id ${id}. Delete it first, or choose another id.`,
  );

export const plantNotFound = (id: number): DomainError =>
  new DomainError('plant_not_found', `You have no plant with the id ${id}.`);

export const idempotencyKeyReused = (): DomainError =>
  new DomainError(
    'idempotency_key_reused',
    'This Idempotency-Key was used before, with a different request. Use a new key for a new request.',
  );

export const ownerErasing = (): DomainError =>
  new DomainError(
    'owner_erasing',
    'Everything that is stored for this account is being erased. In some seconds the account can be used again, and is empty.',
  );

/**
 * Why an event is refused. `newer_version`: a known type in a version after those that this service knows: upgrade.
 * `unknown_type`: a newer version may have written it, or something else has. `invalid`: no version can read it.
 */
export type RefusalKind = 'newer_version' | 'unknown_type' | 'invalid';

/**
 * A stored event that the codec cannot read. It is never skipped silently: readers stop at it.
 * `stream` and `revision` say where it stands, `reason` what is wrong with it.
 */
export class EventRefused extends Error {
  override readonly name = 'EventRefused';
  constructor(
    readonly stream: string,
    readonly revision: bigint,
    readonly reason: string,
    readonly kind: RefusalKind = 'invalid',
  ) {
    super(`event ${revision} of stream ${stream} is refused: ${reason}`);
  }
}

/**
 * An owner is erased in steps, each an event, so that any process continues after a crash. What is left of the owner
 * afterwards are these events, which name nobody, and an `Erased` in the place of each event.
 */

/** The order to erase an owner. Nothing of the owner is written from here on to `OwnerErased`. */
export interface ErasureStarted {
  readonly type: 'ErasureStarted';
  readonly data: {
    /** A UUID. */
    readonly erasure: string;
    /** HMAC-SHA256 of the owner, by the key of `ErasureOrdered`, in base64: that key is erased with the owner. */
    readonly ownerHash: string;
    readonly reason: string;
  };
}

/** The owner is erased: of these events nothing is left but the hashes of their leaves. */
export interface OwnerErased {
  readonly type: 'OwnerErased';
  readonly data: {
    readonly erasure: string;
    /** The number of events. */
    readonly events: number;
    /** SHA-256 of the hashes of their leaves, one after the other in log order, in base64. */
    readonly digest: string;
  };
}

/** Nothing is left in the files of the stores either. */
export interface ErasureFinished {
  readonly type: 'ErasureFinished';
  readonly data: { readonly erasure: string };
}

/** Nothing was erased: the order was interrupted before the log had its `ErasureOrdered`. */
export interface ErasureCancelled {
  readonly type: 'ErasureCancelled';
  readonly data: { readonly erasure: string; readonly reason: string };
}

/** The steps of erasures. They stay. */
export type ErasureEvent = ErasureStarted | OwnerErased | ErasureFinished | ErasureCancelled;

/** The owner that an erasure is about, in a stream of its own, which is erased with the owner. */
export interface ErasureOrdered {
  readonly type: 'ErasureOrdered';
  readonly data: {
    /** As it stands in the names of streams: `encodeOwner`. */
    readonly owner: string;
    /** Random, 32 bytes in base64: without it `ownerHash` cannot be computed again. */
    readonly key: string;
  };
}

/** An event that was erased: all that is left of it. */
export interface Erased {
  readonly type: 'Erased';
  readonly data: {
    /** The hash of the leaf that the event has in the tree (RFC 9162, section 2.1.1), in base64. */
    readonly leafHash: string;
  };
}

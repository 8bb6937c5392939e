import { ml_dsa44 } from '@noble/post-quantum/ml-dsa.js';
import { concat, uint64, utf8 } from './bytes.js';
import { readCheckpoint } from './checkpoint.js';
import { NoteRefused } from './note.js';

/**
 * ML-DSA-44 (FIPS 204), for cosignatures that also hold against quantum computers. Loaded by `readyFor` where it is needed: it
 * takes longer to load than all of the rest. Node's own begins with Node 24.6.
 */
export const { keygen, sign, verify } = ml_dsa44;

const MAX_NAME = 255;

/** The message of a cosignature, C2SP tlog-cosignature's `cosigned_message`. Throws NoteRefused for what is no checkpoint. */
export const cosignedMessage = (text: string, time: bigint, cosigner: string): Uint8Array => {
  const { origin, size, root } = readCheckpoint(text);
  return concat([
    utf8('subtree/v1\n\0'),
    withLength(cosigner),
    uint64(time),
    withLength(origin),
    uint64(0n),
    uint64(BigInt(size)),
    root,
  ]);
};

const withLength = (name: string): Uint8Array => {
  const bytes = utf8(name);
  if (bytes.length > MAX_NAME)
    throw new NoteRefused(`a name in cosignatures of ML-DSA-44 has at most ${MAX_NAME} bytes`);
  return concat([Uint8Array.of(bytes.length), bytes]);
};

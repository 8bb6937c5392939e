/** A store's URL cannot be used. The message is one line without secrets. */
export class BadStoreUrl extends Error {
  override readonly name = 'BadStoreUrl';
}

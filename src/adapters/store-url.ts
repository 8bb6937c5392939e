/** A store's URL that cannot be used. The message is one line for whoever wrote it, and holds nothing secret. */
export class BadStoreUrl extends Error {
  override readonly name = 'BadStoreUrl';
}

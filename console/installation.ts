/** What the page is told of the service that it belongs to: attributes of its document. */
const { version = '', ownerClaim = 'sub', issuer = '', clientId = '' } = document.documentElement.dataset;

/** The version of the service that has sent the page. */
export const VERSION = version;

/** The claim of a token that names the owner of plants. */
export const OWNER_CLAIM = ownerClaim;

/** Where people sign in; undefined where tokens are pasted. */
export const SIGN_IN = issuer === '' || clientId === '' ? undefined : { issuer, clientId };

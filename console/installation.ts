/** Attributes of the page's document, from the service that it belongs to. */
const { version = '', ownerClaim = 'sub', issuer = '', clientId = '' } = document.documentElement.dataset;

/** The version of the service that has sent the page. */
export const VERSION = version;

/** The claim of a token that names the owner of plants. */
export const OWNER_CLAIM = ownerClaim;

/** Undefined where tokens are pasted. */
export const SIGN_IN = issuer === '' || clientId === '' ? undefined : { issuer, clientId };

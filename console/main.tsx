/** Begins the console. */
import { render } from 'preact';
import { watchNetwork } from './api.js';
import { App } from './app.js';
import { notify } from './parts/notices.js';
import { SIGN_IN } from './installation.js';
import { followLinks, hrefOf, navigate, place } from './router.js';
import { messageOf } from './problem.js';
import { resume, signIn } from './session.js';

// Addresses in the document are relative, and would mean something else once the path is another page's.
for (const link of document.querySelectorAll('link'))
  if (link.rel === 'icon') link.setAttribute('href', link.href);

/** Signs in with the code of an issuer that has sent the browser back. Gives what is wrong with it, if anything is. */
const signedInAtIssuer = async (): Promise<string | undefined> => {
  const { page, query } = place.peek();
  if (!SIGN_IN || page !== '' || !query.has('state')) return undefined;
  navigate(hrefOf(''), { replace: true });
  try {
    const { returnFromIssuer } = await import('./oidc.js');
    const { token, href } = await returnFromIssuer(SIGN_IN, query);
    signIn(token);
    navigate(href, { replace: true });
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
};

followLinks();
watchNetwork();
// A link of `plants console` that is opened where the console is open already.
addEventListener('hashchange', () => {
  const fault = resume();
  if (fault !== undefined) notify({ text: fault, kind: 'failed' });
});
const root = document.getElementById('app');
if (root && SIGN_IN && place.peek().query.has('state')) root.textContent = 'Signing in…';
const before = resume() ?? (await signedInAtIssuer());
if (root) root.textContent = '';
if (root) render(<App before={before} />, root);

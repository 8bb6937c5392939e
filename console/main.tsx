/** Where the console begins. */
import { render } from 'preact';
import { watchNetwork } from './api.js';
import { App } from './app.js';
import { notify } from './parts/notices.js';
import { followLinks } from './router.js';
import { resume } from './session.js';

// Addresses in the document are relative, and would mean something else once the path is another page's.
for (const link of document.querySelectorAll('link'))
  if (link.rel === 'icon') link.setAttribute('href', link.href);
const before = resume();
followLinks();
watchNetwork();
// A link of `plants console` that is opened where the console is open already.
addEventListener('hashchange', () => {
  const fault = resume();
  if (fault !== undefined) notify({ text: fault, kind: 'failed' });
});
const root = document.getElementById('app');
if (root) render(<App before={before} />, root);

/** The frame of every page: who is signed in, links to the pages, and the state of the connection. */
import { Component, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useComputed, useSignal } from '@preact/signals';
import { reachable, waitingFor } from './api.js';
import { PAGES, type Page } from './pages.js';
import { Notices } from './parts/notices.js';
import { Failure } from './parts/failure.js';
import { lengthOf } from './parts/time.js';
import { hrefOf, navigate, place } from './router.js';
import { allows, ended, session, signedIn, signOut } from './session.js';
import { SignIn, SignInAgain } from './sign-in.js';

/** Pages for this token. */
const allowedPages = (): Page[] => PAGES.filter(({ scope }) => scope === undefined || allows(scope));

/** The console. `before` says what was wrong with a token that came with the address. */
export const App = ({ before }: { readonly before: string | undefined }) => {
  const who = useComputed(() => session.value?.subject);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Head />
      <Connection />
      {session.value || isPublic() ? <Outlet key={who.value} /> : <SignIn before={before} />}
      {session.value && ended.value !== undefined && <SignInAgain />}
      <Notices />
    </>
  );
};

/** True for a page that needs no token. */
const isPublic = (): boolean =>
  PAGES.some(({ path, scope }) => path === place.value.page && scope === undefined);

const Head = () => {
  const pages = allowedPages();
  return (
    <header class="head">
      <a class="brand" href={hrefOf('')}>
        <Leaf />
        Plant store
      </a>
      <nav aria-label="Pages">
        {(session.value ? pages : []).map(({ path, title }) => (
          <a key={path} href={hrefOf(path)} {...(place.value.page === path && { 'aria-current': 'page' })}>
            {title}
          </a>
        ))}
      </nav>
      {session.value && <Account />}
    </header>
  );
};

const Leaf = () => (
  <svg class="leaf" viewBox="0 0 16 16" aria-hidden="true">
    <path d="M14 1.5C6.5 1 2 4.6 2 9.6c0 1 .2 1.9.6 2.7L1 14l1 1 1.7-1.7c.8.4 1.7.6 2.7.6 5 0 8.6-4.6 7.6-12.4z" />
    <path class="vein" d="M3.4 12.6C5 9.4 7.400 7 10.600 5.400" />
  </svg>
);

/** When it is said how long the token is still good, in milliseconds before its end. */
const SOON_MS = 600_000;

/** The owner of the token, and the time that is left of it. */
const Account = () => {
  const now = useSignal(Date.now());
  useEffect(() => {
    const ticking = setInterval(() => (now.value = Date.now()), 10_000);
    return () => {
      clearInterval(ticking);
    };
  }, []);
  const { subject = '', expiresAt = Infinity, scopes } = session.value ?? {};
  const left = expiresAt - now.value;
  return (
    <div class="account">
      <span class="who" title={`This token allows ${[...(scopes ?? [])].join(', ')}.`}>
        <bdi>{subject}</bdi>
        {signedIn.value && left < SOON_MS && (
          <span class="faint small"> for {lengthOf(Math.max(left, 0))}</span>
        )}
      </span>
      <button type="button" onClick={signOut}>
        Sign out
      </button>
    </div>
  );
};

/** Says what is wrong with the connection, and nothing where nothing is. */
const Connection = () => (
  <div role="status" aria-live="polite" aria-label="Connection">
    {reachable.value ? (
      waitingFor.value !== undefined && (
        <p class="banner">
          <strong>{waitingFor.value}.</strong> Trying again…
        </p>
      )
    ) : (
      <p class="banner failed">
        <strong>{navigator.onLine ? 'The service cannot be reached.' : 'You are offline.'}</strong> What you
        see may be old. What you have typed stays, and requests go on when the connection is back.
      </p>
    )}
  </div>
);

/** The page of this place, which is loaded first. */
const Outlet = () => {
  const pages = allowedPages();
  const { page: path } = place.value;
  const page = pages.find((one) => one.path === path);
  const [start] = pages;
  useEffect(() => {
    if (path === '' && start) navigate(hrefOf(start.path), { replace: true });
  }, [path, start]);
  useEffect(() => {
    document.title = page ? `${page.title} · Plant store` : 'Plant store';
  }, [page]);
  if (page) return <Loading key={path} page={page} />;
  if (path === '' && start) return null;
  const known = PAGES.find((one) => one.path === path);
  return (
    <main class="sign-in" id="main" tabIndex={-1}>
      <h1>{known ? known.title : 'There is no such page'}</h1>
      {known?.scope !== undefined && (
        <p>
          Your token does not allow this page. It needs the scope <code>{known.scope}</code>.
        </p>
      )}
      {start && (
        <p>
          Go to <a href={hrefOf(start.path)}>{start.title}</a>.
        </p>
      )}
    </main>
  );
};

const Loading = ({ page }: { readonly page: Page }) => {
  const [loaded, setLoaded] = useState<{ readonly Page: ComponentType }>();
  const [failed, setFailed] = useState<unknown>();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    let wanted = true;
    page.load().then(
      ({ default: Page }) => {
        if (wanted) setLoaded({ Page });
      },
      (error: unknown) => {
        if (wanted) setFailed(error);
      },
    );
    return () => {
      wanted = false;
    };
  }, [page]);
  useEffect(() => {
    // Whoever follows a link by keyboard or screen reader is taken to what it leads to.
    if (loaded && document.activeElement === document.body && !first.current) main.current?.focus();
    first.current = false;
  }, [loaded]);
  return (
    <main id="main" ref={main} tabIndex={-1} aria-busy={loaded === undefined && failed === undefined}>
      {failed !== undefined && (
        <div class="failure" role="alert">
          <p>
            <strong>This page could not be loaded.</strong> The service may have been upgraded, or cannot be
            reached. Load the console again; you will be asked for your token.
          </p>
          <button
            type="button"
            onClick={() => {
              location.reload();
            }}
          >
            Load again
          </button>
        </div>
      )}
      {loaded && (
        <Boundary>
          <loaded.Page />
        </Boundary>
      )}
    </main>
  );
};

/** Keeps what a page throws while it is drawn from taking the rest away. */
class Boundary extends Component<{ readonly children: ComponentChildren }, { readonly error?: unknown }> {
  static override getDerivedStateFromError(error: unknown): { readonly error: unknown } {
    return { error };
  }

  render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <Failure
        error={this.state.error}
        onRetry={() => {
          this.setState({ error: undefined });
        }}
      />
    );
  }
}

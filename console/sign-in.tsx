/** Signing in: a token is pasted. */
import { useId, useState } from 'preact/hooks';
import { SIGN_IN, VERSION } from './installation.js';
import { Failure } from './parts/failure.js';
import { Dialog } from './parts/dialog.js';
import { messageOf } from './problem.js';
import { ended, signIn, signOut } from './session.js';

/** The form that takes a token. */
const TokenForm = ({ before }: { readonly before?: string | undefined }) => {
  const [fault, setFault] = useState(before);
  const id = useId();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    try {
      signIn(fields.get('token') as string, { keep: fields.has('keep') });
    } catch (error) {
      setFault(messageOf(error));
    }
  };
  return (
    <form onSubmit={submit} autocomplete="off">
      <div class="field">
        <label for={id}>Token</label>
        <textarea
          id={id}
          name="token"
          rows={4}
          spellcheck={false}
          autocapitalize="off"
          required
          class="mono"
          aria-invalid={fault ? 'true' : 'false'}
          aria-describedby={`${id}-hint ${id}-fault`}
        />
        <p class="fault" id={`${id}-fault`} role="alert">
          {fault}
        </p>
        <p class="hint" id={`${id}-hint`}>
          It stays in this tab's memory, and is sent to this service alone.
        </p>
      </div>
      <label class="check">
        <input type="checkbox" name="keep" /> Keep it until this tab is closed
      </label>
      <div class="actions">
        <button type="submit" class="primary">
          Sign in
        </button>
      </div>
    </form>
  );
};

/** Leads to the issuer of tokens, where there is one that knows the console. */
const AtIssuer = () => {
  const [error, setError] = useState<unknown>();
  if (!SIGN_IN) return null;
  const at = SIGN_IN;
  const leave = (): void => {
    setError(undefined);
    import('./oidc.js').then(({ leaveForIssuer }) => leaveForIssuer(at)).catch(setError);
  };
  return (
    <section class="help">
      <div class="actions">
        <button type="button" class="primary" onClick={leave}>
          Sign in at {new URL(at.issuer).host}
        </button>
      </div>
      {error !== undefined && <Failure error={error} />}
    </section>
  );
};

/** Shown before sign-in. `before` says what was wrong with a token that came with the address. */
export const SignIn = ({ before }: { readonly before?: string | undefined }) => (
  <main class="sign-in" id="main" tabIndex={-1}>
    <h1>Sign in</h1>
    <AtIssuer />
    <p>{SIGN_IN ? 'Or paste' : 'Paste'} a token of this service. What it allows is what you will see.</p>
    <TokenForm before={before} />
    <section class="help">
      <h2>Where do I get one?</h2>
      <p>
        On the machine of a service with its own key, one of these opens the console, the other prints a
        token:
      </p>
      <pre tabIndex={0}>
        npx plants console --owner alice{'\n'}npx plants token --owner alice --expires 12h
      </pre>
      <p>Elsewhere from the issuer of its tokens.</p>
    </section>
    <p class="faint small">Version {VERSION}</p>
  </main>
);

/** Asks for a new token over the page as it stands, so that what was typed stays. */
export const SignInAgain = () => (
  <Dialog title="Sign in again">
    <p role="alert">{ended.value} What you have typed is still here.</p>
    <TokenForm />
    <p class="small">
      Or{' '}
      <button type="button" class="link" onClick={signOut}>
        sign out
      </button>{' '}
      and leave it.
    </p>
  </Dialog>
);

/** Checkpoints: the last one and who stands for it, and whether it goes on from one that was kept. */
import { useEffect, useState } from 'preact/hooks';
import { Failure } from '../../parts/failure.js';
import { saveFile } from '../../parts/save.js';
import { TrustForm } from '../../parts/trust-form.js';
import { Verdict } from '../../parts/verdict.js';
import { type Refusal } from '../../../src/transparency/refused.js';
import { type Signed, verifyCheckpoint } from '../../../src/transparency/signed.js';
import { allows } from '../../session.js';
import { explained, trust, trustNow } from '../../trust.js';
import { Alarms } from './alarms.js';
import { Compare } from './compare.js';
import { lastCheckpoint, lastState } from './tree.js';

interface Shown {
  readonly note: string;
  readonly result: Signed | Refusal;
  /** Of the note with the state root: it may be of a later checkpoint. */
  readonly state: Signed | Refusal;
}

const read = async (): Promise<Shown> => {
  const [note, stateNote] = await Promise.all([lastCheckpoint(), lastState()]);
  // Cosignatures are shown, and none is required: the newest checkpoint may still wait for its witnesses.
  const trusted = { ...(await trustNow()), required: 0 };
  return {
    note,
    result: await verifyCheckpoint(note, trusted),
    state: await verifyCheckpoint(stateNote, trusted),
  };
};

const CheckpointsPage = () => {
  const [shown, setShown] = useState<Shown>();
  const [error, setError] = useState<unknown>();
  const [tries, setTries] = useState(0);
  const trusted = trust.value;
  useEffect(() => {
    let wanted = true;
    read().then(
      (next) => {
        if (!wanted) return;
        setShown(next);
        setError(undefined);
      },
      (failure: unknown) => {
        if (wanted) setError(explained(failure));
      },
    );
    return () => {
      wanted = false;
    };
  }, [tries, trusted]);
  const again = (): void => {
    setTries(tries + 1);
  };
  return (
    <>
      <div class="page-head">
        <h1>Checkpoints</h1>
        <button type="button" onClick={again}>
          Ask again
        </button>
      </div>
      <div class="split">
        <div class="stack">
          {allows('plants:audit') && <Alarms />}
          {error !== undefined && <Failure error={error} onRetry={again} />}
          {error === undefined && shown && <Last shown={shown} />}
          <Compare />
        </div>
        <aside aria-label="Keys">
          <TrustForm />
        </aside>
      </div>
    </>
  );
};

const Last = ({ shown: { note, result, state } }: { readonly shown: Shown }) => (
  <section class="card" aria-label="The last checkpoint">
    <h2>The last checkpoint</h2>
    <Verdict result={result}>When this was signed, the log held exactly these events, in this order.</Verdict>
    {result.verdict !== 'refused' && (
      <dl class="facts">
        <dt>Root</dt>
        <dd>
          <code>{result.root}</code>
        </dd>
        <dt>State root</dt>
        <dd>{state.verdict === 'refused' ? state.reason : <code>{state.stateRoot}</code>}</dd>
      </dl>
    )}
    <details>
      <summary>As it was signed</summary>
      <pre tabIndex={0} aria-label="The signed note">
        {note}
      </pre>
    </details>
    <div class="actions">
      <button
        type="button"
        onClick={() => {
          const name = result.verdict === 'refused' ? 'refused' : String(result.size);
          saveFile(`${name}.checkpoint`, note, 'text/plain');
        }}
      >
        Keep it as a file
      </button>
    </div>
  </section>
);

export default CheckpointsPage;

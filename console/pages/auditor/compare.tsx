/** Two checkpoints, and whether the newer one goes on from the older one. */
import { useState } from 'preact/hooks';
import { Failure } from '../../parts/failure.js';
import { Area } from '../../parts/field.js';
import { Verdict } from '../../parts/verdict.js';
import { type Refusal } from '../../../src/transparency/refused.js';
import { type ProvenConsistency, verifyExtension } from '../../../src/transparency/signed.js';
import { explained, trustNow } from '../../trust.js';
import { consistencyProof, lastCheckpoint, sizeOf } from './tree.js';

/** Adds the last newline, which a signed note has and pasted text often lacks. */
const asNote = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);

/**
 * Compares a checkpoint that was kept with the last one of this service, which has to go on from it, or with another one:
 * then the smaller one counts as the older.
 */
export const compareCheckpoints = async (
  kept: string,
  other: string | undefined,
): Promise<ProvenConsistency | Refusal> => {
  let [older, newer] = [asNote(kept), other === undefined ? await lastCheckpoint() : asNote(other)];
  if (other !== undefined && (sizeOf(older) ?? 0) > (sizeOf(newer) ?? 0)) [older, newer] = [newer, older];
  const proof = await consistencyProof(sizeOf(older) ?? 0, sizeOf(newer) ?? 0);
  return verifyExtension(older, newer, proof, await trustNow());
};

export const Compare = () => {
  const [kept, setKept] = useState('');
  const [other, setOther] = useState('');
  const [result, setResult] = useState<ProvenConsistency | Refusal>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const compare = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (busy || kept.trim() === '') return;
    setBusy(true);
    try {
      setResult(await compareCheckpoints(kept, other.trim() === '' ? undefined : other));
      setError(undefined);
    } catch (failure) {
      setResult(undefined);
      setError(explained(failure));
    } finally {
      setBusy(false);
    }
  };
  return (
    <section class="card" aria-label="Compare two checkpoints">
      <h2>Compare with one that you have kept</h2>
      <form onSubmit={(event) => void compare(event)} noValidate>
        <Area
          label="The checkpoint that you have kept"
          hint="All of its text, with its signatures. Or choose its file on the page Check a file."
          rows={6}
          value={kept}
          onInput={setKept}
        />
        <Area
          label="Another one"
          hint="The last one of this service, where this is empty."
          rows={2}
          value={other}
          onInput={setOther}
        />
        <div class="actions">
          <button type="submit" class="primary" aria-disabled={busy}>
            {busy ? 'Comparing…' : 'Compare'}
          </button>
        </div>
      </form>
      {error !== undefined && <Failure error={error} />}
      {result && <Compared result={result} />}
    </section>
  );
};

export const Compared = ({ result }: { readonly result: ProvenConsistency | Refusal }) => {
  if (result.verdict === 'refused') return <Verdict result={result} />;
  const [older, newer] = [result.older.size, result.newer.size];
  return (
    <Verdict result={result.newer}>
      {older === newer
        ? `Both are of the same ${newer.toLocaleString()} events.`
        : `The log of ${newer.toLocaleString()} events goes on from that of ${older.toLocaleString()}: none of these was changed, moved or removed since.`}
    </Verdict>
  );
};

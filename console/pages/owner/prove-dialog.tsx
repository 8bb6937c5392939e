/** "Prove this list": the proof of a page is fetched, and verified here, by code of this page's own. */
import { position, send } from '../../api.js';
import { Dialog } from '../../parts/dialog.js';
import { Failure } from '../../parts/failure.js';
import { listSentence, textsOf } from '../../parts/proven-plants.js';
import { saveFile } from '../../parts/save.js';
import { TrustForm } from '../../parts/trust-form.js';
import { useRead } from '../../parts/use-read.js';
import { Verdict } from '../../parts/verdict.js';
import { type ListedPlant, type ProvenList, verifyListProof } from '../../../src/transparency/list-proof.js';
import { type Refusal } from '../../../src/transparency/refused.js';
import { session } from '../../session.js';
import { explained, trust, trustNow } from '../../trust.js';
import { PAGE_SIZE, type Plant, type PlantList } from './plant-list.js';

const FILE = 'list.proof';

interface Proof {
  /** As the service gave it. */
  readonly text: string;
  readonly result: ProvenList | Refusal;
}

export const ProveDialog = ({
  list,
  onClose,
}: {
  readonly list: PlantList;
  readonly onClose: () => void;
}) => {
  const { after } = list.place;
  const keys = trust.value;
  const { shown: text, error: unread, retry } = useRead((signal) => fetchProof(after, signal), [after]);
  const { shown: proof, error: unverified } = useRead(
    async (signal) => (text === undefined ? undefined : verified(text, after, signal)),
    [text, after, keys],
  );
  const error = unread ?? unverified;
  return (
    <Dialog title="Prove this list" wide onClose={onClose}>
      {error !== undefined && <Failure error={error} {...(unread !== undefined && { onRetry: retry })} />}
      {error === undefined && !proof && (
        <p role="status">Waiting for a signed checkpoint that covers this list…</p>
      )}
      {error === undefined && proof && <Result proof={proof} list={list} onAgain={retry} />}
      <TrustForm />
    </Dialog>
  );
};

/** The proof of a page that contains at least what this session has seen. Throws as `send` does. */
const fetchProof = async (after: string | undefined, signal: AbortSignal): Promise<string> => {
  const response = await send('log/list', {
    query: { limit: PAGE_SIZE, after, position: position.peek() },
    signal,
  });
  return response.text();
};

/** Verifies a proof with the keys that are trusted now. Throws what `signal` was aborted with. */
const verified = async (text: string, after: string | undefined, signal: AbortSignal): Promise<Proof> => {
  try {
    const result = await verifyListProof(text, await trustNow());
    signal.throwIfAborted();
    return { text, result: ofThisPage(result, after) };
  } catch (error) {
    throw explained(error);
  }
};

/** A true proof of something else is none of this page. */
const ofThisPage = (result: ProvenList | Refusal, after: string | undefined): ProvenList | Refusal => {
  if (result.verdict === 'refused') return result;
  const owner = session.peek()?.subject;
  if (result.owner !== owner)
    return { verdict: 'refused', reason: `it is the list of another owner, ${JSON.stringify(result.owner)}` };
  if ((after === undefined) !== (result.after === undefined))
    return { verdict: 'refused', reason: 'it is of another page of the list' };
  return result;
};

const Result = ({
  proof: { text, result },
  list,
  onAgain,
}: {
  readonly proof: Proof;
  readonly list: PlantList;
  readonly onAgain: () => void;
}) => (
  <>
    <Verdict result={result}>{result.verdict !== 'refused' && listSentence(result)}</Verdict>
    {result.verdict !== 'refused' && <Comparison proven={result.plants} shown={list.plants.value ?? []} />}
    <div class="actions">
      <button
        type="button"
        onClick={() => {
          saveFile(FILE, text);
        }}
      >
        Save the proof
      </button>
      <button type="button" onClick={onAgain}>
        Prove it again
      </button>
    </div>
    <p class="hint">
      Anybody verifies the file with the key of the log: <code>npx plants check {FILE} --key VKEY</code>
    </p>
  </>
);

/** Compares the page with what was proven. It may have changed since the checkpoint: it is live. */
const Comparison = ({
  proven,
  shown,
}: {
  readonly proven: readonly ListedPlant[];
  readonly shown: readonly Plant[];
}) => {
  const rows = new Map(proven.map((plant) => [plant.id, rowOf(textsOf(plant))]));
  const others = shown.filter((plant) => rows.get(plant.id) !== rowOf(plant)).map(({ id }) => id);
  const ids = new Set(shown.map(({ id }) => id));
  const [first] = [...others, ...[...rows.keys()].filter((id) => !ids.has(id))].sort((a, b) => a - b);
  if (first === undefined) return <p>They are the plants that this page shows.</p>;
  return (
    <p role="alert" class="fault">
      This page shows something else. The first plant that differs has the id{' '}
      <span class="mono">{first}</span>. It may have changed since the checkpoint: prove the list again.
    </p>
  );
};

const rowOf = ({ name, tag }: Pick<Plant, 'name' | 'tag'>): string => JSON.stringify([name, tag]);

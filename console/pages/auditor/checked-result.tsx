/** The kind of a file, and the result of its check. */
import { Failure } from '../../parts/failure.js';
import { Name } from '../../parts/name.js';
import { Verdict } from '../../parts/verdict.js';
import { type ProvenBundle } from '../../../src/transparency/bundle.js';
import { type ProvenList } from '../../../src/transparency/list-proof.js';
import { type Refusal } from '../../../src/transparency/refused.js';
import { type ProvenConsistency } from '../../../src/transparency/signed.js';
import { type CheckedFile } from '../../check-file.js';
import { explained } from '../../trust.js';
import { useState } from 'preact/hooks';
import { Compared, compareCheckpoints } from './compare.js';
import { PlantsProven, listSentence } from '../../parts/proven-plants.js';
import { subjectOf, wordOf } from './words.js';

const KINDS: Readonly<Record<CheckedFile['kind'], string>> = {
  bundle: 'A bundle',
  list: 'The proof of a list',
  receipt: 'A receipt',
  checkpoint: 'A checkpoint',
  unknown: 'No file of a log',
};

export const CheckedResult = ({ name, file }: { readonly name: string; readonly file: CheckedFile }) => (
  <section class="card" aria-label="Result">
    <h2>
      <Name text={name} />
    </h2>
    <p class="faint">{KINDS[file.kind]}</p>
    <Result file={file} />
  </section>
);

const Result = ({ file }: { readonly file: CheckedFile }) => {
  const { kind, result } = file;
  if (result.verdict === 'refused') return <Verdict result={result} />;
  if (kind === 'bundle') return <Bundle result={result} />;
  if (kind === 'list') return <List result={result} />;
  if (kind === 'checkpoint')
    return (
      <>
        <Verdict result={result}>When it was signed, the log held exactly these events.</Verdict>
        <WithTheLast note={file.note} />
      </>
    );
  if (kind === 'receipt')
    return (
      <>
        <p>
          <strong>{wordOf(result.event.type)}</strong> <Name text={subjectOf(result.event)} />
        </p>
        <Verdict result={result}>
          Event {result.index} of the log is this one, exactly so; in the stream{' '}
          <Name text={result.event.stream} />.
        </Verdict>
        <pre dir="ltr" tabIndex={0} aria-label="The event as JSON">
          {JSON.stringify(result.event, undefined, 2)}
        </pre>
      </>
    );
  return null;
};

const Bundle = ({ result }: { readonly result: ProvenBundle }) => {
  const { owner, events, from, size, isStateProven, against } = result;
  return (
    <>
      <Verdict result={result}>
        {owner === undefined ? (
          <>
            {events === 0
              ? 'No events are in it'
              : `Events ${from} to ${size - 1} are in the log, exactly so`}
            , and none is missing between them.
          </>
        ) : (
          <>
            {events.toLocaleString()} events of <Name text={owner} /> are in the log, exactly so.
          </>
        )}
        {against !== undefined &&
          ` It goes on from the older checkpoint of ${against.toLocaleString()} events.`}
      </Verdict>
      <p class="small">{stateSentence(owner !== undefined, isStateProven)}</p>
    </>
  );
};

const stateSentence = (isOwned: boolean, isStateProven: boolean | undefined): string => {
  if (isOwned)
    return isStateProven
      ? 'No plant of the owner is missing, and none that is there was deleted. Events of deleted plants and of requests may have been left out.'
      : 'Whether events of the owner were left out is not proven.';
  if (isStateProven === undefined) return 'The checkpoint does not commit to the plants that are present.';
  return isStateProven
    ? 'The plants that these events leave are those that the checkpoint commits to.'
    : 'The plants that are present were not computed: that takes a bundle of all events.';
};

const List = ({ result }: { readonly result: ProvenList }) => (
  <>
    <Verdict result={result}>{listSentence(result)}</Verdict>
    <PlantsProven list={result} />
  </>
);

/** Compares a checkpoint that was kept with the last one of this service. */
const WithTheLast = ({ note }: { readonly note: string }) => {
  const [result, setResult] = useState<ProvenConsistency | Refusal>();
  const [error, setError] = useState<unknown>();
  const compare = async (): Promise<void> => {
    try {
      setResult(await compareCheckpoints(note, undefined));
      setError(undefined);
    } catch (failure) {
      setError(explained(failure));
    }
  };
  return (
    <>
      <div class="actions">
        <button type="button" onClick={() => void compare()}>
          Compare with the log as it is now
        </button>
      </div>
      {error !== undefined && <Failure error={error} />}
      {result && <Compared result={result} />}
    </>
  );
};

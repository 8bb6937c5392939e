/** Result of a proof: whether it holds, who has signed and witnessed it, or the first thing that does not fit. */
import { type ComponentChildren } from 'preact';
import { type Refusal } from '../../src/transparency/refused.js';
import { type Signed } from '../../src/transparency/signed.js';
import { Name } from './name.js';
import { Time } from './time.js';

const WORDS = {
  proven: 'Proven',
  consistent: 'Consistent, but not proven',
  refused: 'Refused',
} as const;

/** `children` say in a sentence what is proven. */
export const Verdict = ({
  result,
  children,
}: {
  readonly result: Signed | Refusal;
  readonly children?: ComponentChildren;
}) => (
  <div class={`verdict ${result.verdict}`} role="status">
    <p>
      <strong>{WORDS[result.verdict]}.</strong>{' '}
      {result.verdict === 'refused' ? <bdi>{sentence(result.reason)}</bdi> : children}
    </p>
    {result.verdict === 'consistent' && (
      <p class="small">
        {result.unverified.length === 0
          ? 'No one has signed it, so anyone can have made it.'
          : 'You trust no key that has signed it, and anyone can make such a proof with a key of their own. Add the key of the log to those that you trust: it has to come to you by another way than this page.'}
      </p>
    )}
    {result.verdict !== 'refused' && <Signers signed={result} />}
  </div>
);

const sentence = (reason: string): string => `${reason.slice(0, 1).toUpperCase()}${reason.slice(1)}.`;

/** By whom a checkpoint is signed and witnessed, and what it is of. */
export const Signers = ({ signed }: { readonly signed: Signed }) => (
  <dl class="facts">
    <dt>Log</dt>
    <dd>
      <Name text={signed.origin} />
    </dd>
    <dt>Checkpoint</dt>
    <dd class="number">{count(signed.size)}</dd>
    <dt>Signed by</dt>
    <dd>
      {signed.signedBy === undefined ? (
        <span class="faint">not verified</span>
      ) : (
        <Name text={signed.signedBy} />
      )}
    </dd>
    <dt>Witnessed by</dt>
    <dd>
      {signed.cosignedBy.length === 0 && <span class="faint">none of the witnesses that you trust</span>}
      {signed.cosignedBy.map(({ key, time }) => (
        <div key={key}>
          <Name text={key} /> <Time at={time.getTime()} />
        </div>
      ))}
    </dd>
    {signed.unverified.length > 0 && (
      <>
        <dt>Other signatures</dt>
        <dd class="faint">
          {signed.unverified.map((key) => (
            <div key={key}>
              <Name text={key} />
            </div>
          ))}
          Not verified: you have given no such key.
        </dd>
      </>
    )}
  </dl>
);

const count = (events: number): string =>
  events === 1 ? 'of 1 event' : `of ${events.toLocaleString()} events`;

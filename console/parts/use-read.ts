/** Reading what a part of a page shows. */
import { type Inputs, useEffect, useState } from 'preact/hooks';
import { isAborted } from '../problem.js';

/** `shown` is the last result, `error` the reason of a failed try. */
export interface Read<T> {
  readonly shown: T | undefined;
  readonly error: unknown;
  readonly retry: () => void;
}

/** Reads when the part is shown first, and again when one of `inputs` is another one; a read that is overtaken is aborted. */
export const useRead = <T>(read: (signal: AbortSignal) => Promise<T>, inputs: Inputs): Read<T> => {
  const [shown, setShown] = useState<T>();
  const [error, setError] = useState<unknown>();
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const loading = new AbortController();
    read(loading.signal).then(
      (next) => {
        setShown(() => next);
        setError(undefined);
      },
      (failure: unknown) => {
        if (!isAborted(failure)) setError(failure);
      },
    );
    return () => {
      loading.abort();
    };
  }, [...inputs, tries]);
  const retry = (): void => {
    setTries(tries + 1);
  };
  return { shown, error, retry };
};

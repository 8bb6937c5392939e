import { startTimer, stopTimer } from '../runtime/runtime.js';

/** An error, which loses its class on the way to another thread. */
export type Failure = Readonly<Pick<Error, 'name' | 'message'>>;

/** Answer of another thread to a call. */
export type Answer = { readonly value: unknown } | Failure;

/** Does what a call asks for. Never rejects. */
export const answerTo = async (work: () => Promise<unknown>): Promise<Answer> => {
  try {
    return { value: await work() };
  } catch (error) {
    const { name, message } = error as Error;
    return { name, message };
  }
};

/** Calls of another thread, by their numbers. */
export class ThreadCalls {
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #last = 0;

  /** Hands `post` the number of the call, and resolves with its answer: with `late` after `deadlineMs` milliseconds. */
  async ask(
    post: (call: number) => void,
    { late, deadlineMs }: { readonly late: Answer; readonly deadlineMs: number },
  ): Promise<Answer> {
    const call = ++this.#last;
    const timer = startTimer(() => {
      this.answered(call, late);
    }, deadlineMs);
    const answer = new Promise<Answer>((resolve) => this.#waiting.set(call, resolve));
    post(call);
    return answer.finally(() => {
      stopTimer(timer);
    });
  }

  answered(call: number, answer: Answer): void {
    this.#waiting.get(call)?.(answer);
    this.#waiting.delete(call);
  }

  /** Answers all that wait: no other answer comes. */
  endAll(answer: Answer): void {
    for (const call of [...this.#waiting.keys()]) this.answered(call, answer);
  }
}

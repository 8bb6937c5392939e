import { createHash } from 'node:crypto';
import { type Runtime, type Timer } from '../../../src/runtime/runtime.js';
import { Random } from '../random.js';

/** When the simulated world begins, in milliseconds since 1970. */
const BEGINNING = Date.parse('2026-01-01T00:00:00Z');

/** Lines that are hashed together: hashing each for itself takes longer than what it is about. */
const HASHED_AT_ONCE = 256;

/** Steps of one turn of Node's event loop: a turn of its own for each takes a third of the time. */
const STEPS_AT_ONCE = 64;

/** Something that happens at a moment, on one machine. */
interface Happening {
  at: number;
  /** Decides between happenings of the same moment. */
  readonly tie: number;
  readonly machine: Machine;
  readonly what: string;
  run: (() => void) | undefined;
}

/** One life of a process or a server: it has a clock, and ends with everything that was to happen on it. */
export class Machine {
  alive = true;
  frozenUntil = 0;
  /** By how much the time of day is wrong, in milliseconds. */
  wallOffset = 0;
  readonly random: Random;
  readonly #bornAt: number;
  readonly #base: number;
  /** The same delay for all timers, so that they keep their order. */
  readonly #late: number;

  constructor(
    readonly world: World,
    readonly name: string,
    /** Speed of its clock: 1 for that of the world's. */
    readonly rate = 1,
  ) {
    this.random = world.stream(`machine ${name}`);
    this.#bornAt = world.now;
    this.#base = 1_000 + this.random.below(1_000_000);
    this.#late = this.random.next();
  }

  monotonicMs(): number {
    return this.#base + (this.world.now - this.#bornAt) * this.rate;
  }

  /** The time of day by its clock. */
  readonly wall = (): Date => new Date(Math.floor(BEGINNING + this.world.now * this.rate + this.wallOffset));

  /** Calls `run` after so many milliseconds of its clock. */
  after(ms: number, what: string, run: () => void): Happening {
    return this.world.schedule(this, this.world.now + ms / this.rate, what, run);
  }

  startTimer(run: () => void, ms: number): Happening {
    return this.after(Math.max(1, ms) + this.#late, 'timer', run);
  }

  /** It dies, and loses its memory: nothing of what it had begun goes on. */
  die(): void {
    this.alive = false;
  }
}

/** A world in which one seed decides everything: time goes on from one happening to the next. */
export class World {
  now = 0;
  /** Happenings so far. */
  steps = 0;
  /** The readable trace, where it was asked for. */
  readonly lines: string[] | undefined;
  readonly #heap: Happening[] = [];
  readonly #ties: Random;
  readonly #hash = createHash('sha256');
  #unhashed: string[] = [];
  #current: Machine | undefined;
  #uuids = 0;

  constructor(
    readonly seed: number,
    { keepsTrace = false }: { readonly keepsTrace?: boolean } = {},
  ) {
    this.lines = keepsTrace ? [] : undefined;
    this.#ties = this.stream('ties');
  }

  /** Numbers of their own for one purpose, so that a change elsewhere does not change them. */
  stream(purpose: string): Random {
    let mixed = this.seed ^ 0x9e3779b9;
    for (let index = 0; index < purpose.length; index += 1)
      mixed = Math.imul(mixed ^ purpose.charCodeAt(index), 0x01000193) ^ (mixed >>> 13);
    return new Random(mixed);
  }

  get current(): Machine {
    if (!this.#current) throw new Error('nothing of a machine runs outside of the steps of the world');
    return this.#current;
  }

  schedule(machine: Machine, at: number, what: string, run: () => void): Happening {
    const happening = { at, tie: this.#ties.next(), machine, what, run };
    this.#push(happening);
    return happening;
  }

  /** Adds a line to the trace. */
  note(line: string): void {
    const whole = `${this.now.toFixed(3)} ${line}`;
    this.lines?.push(whole);
    if (this.#unhashed.push(whole) === HASHED_AT_ONCE) this.#hashNow();
  }

  /** The hash of the trace so far. May be asked for once. */
  traceHash(): string {
    this.#hashNow();
    return this.#hash.digest('hex');
  }

  #hashNow(): void {
    this.#hash.update(this.#unhashed.join('\n'));
    this.#unhashed = [];
  }

  /** Runs until `isOver`, or until nothing is to happen any more. All promises have settled between two steps. */
  async run(isOver: () => boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      let hasEnded = false;
      let waiting = 0;
      const turn = (): void => {
        waiting -= 1;
        if (hasEnded) return;
        try {
          hasEnded = isOver() || !this.#step();
          if (hasEnded) resolve();
          else if (waiting === 0) begin();
        } catch (error) {
          hasEnded = true;
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
      // Before each of them Node settles all that the one before has made ready, promises included.
      const begin = (): void => {
        for (; waiting < STEPS_AT_ONCE; waiting += 1) setImmediate(turn);
      };
      begin();
    });
  }

  /** The rest of this step, promises included, happens on another machine. */
  become(machine: Machine): void {
    this.#current = machine;
  }

  #step(): boolean {
    for (let next = this.#pop(); next; next = this.#pop()) {
      const { machine, run } = next;
      if (!run || !machine.alive) continue;
      if (machine.frozenUntil > next.at) {
        next.at = machine.frozenUntil + (next.at - this.now) / 1e6; // in the same order
        this.#push(next);
        continue;
      }
      this.now = Math.max(this.now, next.at);
      this.steps += 1;
      this.#current = machine; // also of the promises that settle now
      this.note(`${machine.name} ${next.what}`);
      next.run = undefined;
      run();
      return true;
    }
    return false;
  }

  /** The runtime of the machine on which something happens. */
  readonly runtime: Runtime = {
    monotonicMs: () => this.current.monotonicMs(),
    startTimer: (run, ms) => this.current.startTimer(run, ms) as unknown as Timer,
    startIdleTimer: (run, ms) => this.current.startTimer(run, ms) as unknown as Timer,
    stopTimer: (timer) => {
      if (timer) (timer as unknown as Happening).run = undefined;
    },
    onNextTurn: (run) => {
      this.current.after(0.01, 'turn', run);
    },
    abortAfter: (ms) => {
      const late = new AbortController();
      this.current.startTimer(() => {
        late.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
      }, ms);
      return late.signal;
    },
    loopTimes: () => ({ active: 0, idle: this.now }),
    random: () => this.current.random.next(),
    randomId: () => {
      this.#uuids += 1;
      const { random } = this.current;
      const part = (): string => random.below(65_536).toString(16).padStart(4, '0');
      const count = this.#uuids.toString(16).padStart(12, '0');
      return `${part()}${part()}-${part()}-4${part().slice(1)}-8${part().slice(1)}-${count}`;
    },
    randomOctets: (count) => Buffer.from(Array.from({ length: count }, () => this.current.random.below(256))),
  };

  #push(happening: Happening): void {
    const heap = this.#heap;
    let at = heap.push(happening) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above];
      if (!parent || !isBefore(happening, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = happening;
  }

  #pop(): Happening | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (!first || !last || first === last) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      let child = heap[below];
      if (!child) break;
      const right = heap[below + 1];
      if (right && isBefore(right, child)) {
        child = right;
        below += 1;
      }
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
    return first;
  }
}

const isBefore = (one: Happening, other: Happening): boolean =>
  one.at < other.at || (one.at === other.at && one.tie < other.tie);

import { type Random } from '../random.js';
import { Machine, type World } from './scheduler.js';

/** Faults of messages and disks, each a share from 0 to 1 or a time in milliseconds. */
export interface Manners {
  /** A request that never arrives, of which the sender hears nothing. */
  readonly lostRequests: number;
  /** An answer that never arrives. */
  readonly lostAnswers: number;
  /** A message that takes up to `slowMs`. */
  readonly slow: number;
  readonly slowMs: number;
  /** Share of connections with such messages; all others have none. */
  readonly slowConnections: number;
  /** Usual maximum for a message. */
  readonly latencyMs: number;
  /** Maximum for a sync of the disk. */
  readonly syncMs: number;
}

export const CALM: Manners = {
  lostRequests: 0,
  lostAnswers: 0,
  slow: 0,
  slowMs: 0,
  slowConnections: 1,
  latencyMs: 1,
  syncMs: 2,
};

/** No answer came. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  constructor(
    message: string,
    /** The request may have been carried out, now or later. */
    readonly mayHaveRun: boolean,
  ) {
    super(message);
  }
}

/** Carries out a request: it answers now, later, or never. */
export type Work<T> = (answer: (result: T) => void, refuse: (error: Error) => void) => void;

/** A way to ask a server. */
export interface Connection {
  /** Rejects with NoAnswer, and with what the server refuses with. `waitMs`: how long the server may wait before it answers. */
  ask<T>(what: string, work: Work<T>, waitMs?: number): Promise<T>;
}

/** Runs the timers of a server. Its clock goes on when it is started again. */
export interface Host {
  readonly nowMs: () => number;
  readonly after: (ms: number, what: string, run: () => void) => void;
}

/** A server or a process: it has a disk that survives it, and lives again and again. It begins with `start`. */
export class Server {
  #machine: Machine | undefined;
  #lives = 0;
  /** Waits for answers of the present life. */
  readonly #cut = new Set<() => void>();

  constructor(
    private readonly world: World,
    readonly name: string,
    /** Called in the first step of each life, on its machine. */
    private readonly onStart: (machine: Machine) => void = () => undefined,
    private readonly onCrash: () => void = () => undefined,
  ) {}

  get isUp(): boolean {
    return this.#machine?.alive === true;
  }

  get life(): number {
    return this.#lives;
  }

  get machine(): Machine {
    if (!this.#machine) throw new Error(`${this.name} was never started`);
    return this.#machine;
  }

  /** Timers of the present life. */
  readonly host: Host = {
    nowMs: () => this.world.now,
    after: (ms, what, run) => void this.machine.after(ms, what, run),
  };

  crash(): void {
    if (!this.isUp) return;
    this.world.note(`${this.name} crashes`);
    this.machine.die();
    this.onCrash();
    for (const cut of [...this.#cut]) cut();
    this.#cut.clear();
  }

  /** `rate`: of the clock of this life. */
  start(rate = 1): void {
    if (this.isUp) return;
    this.#lives += 1;
    const machine = new Machine(this.world, `${this.name}/${this.#lives}`, rate);
    this.#machine = machine;
    machine.after(0, 'starts', () => {
      this.onStart(machine);
    });
  }

  /** Calls `cut` when the present life ends. */
  untilCrash(cut: () => void): () => void {
    this.#cut.add(cut);
    return () => this.#cut.delete(cut);
  }
}

/** Limit of a client for an answer. */
const DEADLINE_MS = 1_500;

/** The connection of one life of a process to a server. */
export class SimulatedConnection implements Connection {
  #lastArrival = 0;
  readonly #random: Random;
  readonly #isSlow: boolean;

  constructor(
    private readonly world: World,
    private readonly client: Machine,
    private readonly server: Server,
    private readonly manners: () => Manners,
    /** Requests arrive in the order in which they were sent. */
    private readonly isOrdered = false,
  ) {
    this.#random = world.stream(`network ${client.name} ${server.name} ${isOrdered}`);
    const { slowConnections } = manners();
    this.#isSlow = slowConnections === 1 || this.#random.chance(slowConnections);
  }

  ask<T>(what: string, work: Work<T>, waitMs = 0): Promise<T> {
    const { world, client, server } = this;
    const { lostRequests, lostAnswers } = this.manners();
    return new Promise<T>((resolve, reject) => {
      let isOver = false;
      const end = (settle: () => void): void => {
        if (isOver) return;
        isOver = true;
        deadline.run = undefined;
        settle();
      };
      const noAnswer = (mayHaveRun: boolean, why: string): NoAnswer =>
        new NoAnswer(`${server.name}: ${why}`, mayHaveRun);
      const back = (label: string, settle: () => void): void => {
        if (this.#random.chance(lostAnswers)) {
          world.note(`lost: ${label}`);
          return;
        }
        world.schedule(client, world.now + this.#delay(), label, () => {
          end(settle);
        });
      };
      const deadline = client.after(DEADLINE_MS + waitMs, `gave up ${what}`, () => {
        end(() => {
          reject(noAnswer(true, `no answer to ${what}`));
        });
      });
      if (this.#random.chance(lostRequests)) {
        world.note(`lost: ${client.name} asks ${what}`);
        return;
      }
      let arrival = world.now + this.#delay();
      if (this.isOrdered) this.#lastArrival = arrival = Math.max(arrival, this.#lastArrival + 0.001);
      // The network outlives the sender of a message.
      const arrive = (): void => {
        if (server.isUp && server.machine.frozenUntil > world.now) {
          world.schedule(server.machine, world.now, what, arrive);
          return;
        }
        if (!server.isUp) {
          back(`${what} refused`, () => {
            reject(noAnswer(false, 'is away'));
          });
          return;
        }
        const stop = server.untilCrash(() => {
          back(`${what} cut`, () => {
            reject(noAnswer(true, 'has cut the connection'));
          });
        });
        world.become(server.machine);
        work(
          (result) => {
            stop();
            back(`answer ${what}`, () => {
              resolve(result);
            });
          },
          (error) => {
            stop();
            back(`answer ${what}: ${error.name}`, () => {
              reject(error);
            });
          },
        );
      };
      world.schedule(wireOf(world), arrival, `${client.name} asks ${what}`, arrive);
    });
  }

  #delay(): number {
    const { slow, slowMs, latencyMs } = this.manners();
    const usual = 0.05 + this.#random.next() * latencyMs;
    return this.#isSlow && this.#random.chance(slow) ? usual + this.#random.next() * slowMs : usual;
  }
}

const wires = new WeakMap<World, Machine>();

/** The machine of everything that belongs to none: it never dies. */
export const wireOf = (world: World): Machine => {
  let wire = wires.get(world);
  if (!wire) wires.set(world, (wire = new Machine(world, '~')));
  return wire;
};

import { type Context } from './context.js';
import { CONTENDERS, type ContenderName, type Store, type Target } from './contenders.js';
import { LoadedTarget } from './loaded-target.js';
import { NotRun } from './processes.js';

/** Contenders that run, in the order in which they take turns. */
export type Contestants<Name extends ContenderName = ContenderName> = Map<Name, LoadedTarget>;

const PEERS: readonly Store[] = ['typeorm', 'typeorm-key', 'emmett'];

/** Starts contenders, and notes which of them this machine cannot run, and why. */
export const startAll = async <Name extends Store>(
  { results, say }: Context,
  contestants: { set(name: Name, target: LoadedTarget): unknown },
  names: readonly Name[],
  start: (name: Name) => Promise<Target>,
): Promise<void> => {
  for (const name of names) {
    say(`starting ${CONTENDERS[name]}`);
    try {
      contestants.set(name, new LoadedTarget(await start(name)));
    } catch (error) {
      const { message } = error as Error;
      // A peer that does not start on this machine is no fault of the service.
      if (!(error instanceof NotRun) && !PEERS.includes(name)) throw error;
      results.notRun(CONTENDERS[name], message);
      say(`not run: ${message}`);
    }
  }
};

import { type Context } from '../context.js';
import { LoadedTarget } from '../loaded-target.js';
import { interleaved } from '../round.js';
import { startService } from '../service.js';

/** Processes that answer, of each service. */
const WORKERS = [1, 2];

/** Plants of a list. */
const PLANTS = 20;

/** Connections of lists: enough that each process has some, however the system divides them. */
const LISTS = 64;
const CREATES = 256;

/** The parts of this workload, which can be asked for one by one. */
export const WORKERS_OF = ['workers-lists', 'workers-creates'];

/** Lists and creates of one service with so many workers, in turn. The load generator takes its share of the same cores. */
export const workers = async (context: Context): Promise<void> => {
  const { stage, sizes, say, wants } = context;
  if (!WORKERS_OF.some(wants)) return;
  const services: { readonly contender: string; readonly target: LoadedTarget }[] = [];
  try {
    for (const count of WORKERS) {
      const contender = `embedded, WORKERS=${count}`;
      say(`starting ${contender}`);
      const dataDir = stage.newPath('workers');
      await stage.keys.giveTo(dataDir);
      const service = await startService({ dataDir, settings: { WORKERS: String(count) } });
      const target = LoadedTarget.of(service, stage);
      services.push({ contender, target });
      await target.fill(PLANTS);
      if (sizes.warmUpSeconds > 0) {
        await target.creates(CREATES, sizes.warmUpSeconds);
        await target.lists(PLANTS, LISTS, sizes.warmUpSeconds);
      }
    }
    const each = (measure: (target: LoadedTarget) => ReturnType<LoadedTarget['lists']>) =>
      services.map(({ contender, target }) => ({
        contender,
        unit: 'requests/s',
        measure: () => measure(target),
      }));
    if (wants('workers-lists'))
      await interleaved(
        context,
        'workers-lists',
        each((target) => target.lists(PLANTS, LISTS, sizes.seconds)),
      );
    if (wants('workers-creates'))
      await interleaved(
        context,
        'workers-creates',
        each((target) => target.creates(CREATES, sizes.seconds)),
      );
  } finally {
    for (const { target } of services) await target.target.stop();
  }
};

import { drawOptions } from '../world/draw-options.js';
import { simulate } from '../world/simulation.js';
import { PLANTED_FAULTS } from './mutants.js';

// One planted fault, from a copy of the build where it is in the source: child.js NAME [worlds] [first seed].
const [name = '', most = '1', first = '1'] = process.argv.slice(2);
const fault = PLANTED_FAULTS.find((one) => one.name === name);
let seed = Number(first);
let worlds = 0;
let found: { readonly steps: number; readonly rule: string } | undefined;
for (; worlds < Number(most); seed += 1) {
  if (fault?.worlds && !fault.worlds(drawOptions(seed))) continue;
  worlds += 1;
  try {
    const { broken, steps } = await simulate(seed, { ...(fault?.mutant && { mutant: fault.mutant }) });
    if (broken[0]) found = { steps, rule: broken[0].rule };
  } catch (error) {
    found = { steps: 0, rule: (error as Error).message };
  }
  if (found) break;
}
process.stdout.write(`${JSON.stringify({ name, seed, worlds, ...found })}\n`);
process.exit(0);

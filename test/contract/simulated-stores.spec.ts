import { PLANTED_FAULTS } from '../simulation/mutants/mutants.js';
import { ListServer } from '../simulation/world/list-server.js';
import { LogServer } from '../simulation/world/log-server.js';
import { REAL_HOST, realConnection } from '../simulation/world/contract-hosts.js';
import { type LogManners, SimulatedEventLog } from '../simulation/world/simulated-log.js';
import { SimulatedLists } from '../simulation/world/simulated-lists.js';
import { SimulatedTree, TreeDisk } from '../simulation/world/simulated-tree.js';
import { eventLogContract } from './event-log.contract.js';
import { eventLogErasureContract } from './event-log-erasure.contract.js';
import { blockedOwnersContract } from './blocked-owners.contract.js';
import { readModelContract } from './read-model.contract.js';
import { treeStoreContract } from './tree-store.contract.js';

// A planted fault, for `npm run simulate:others`.
const faulty = PLANTED_FAULTS.find(({ name }) => name === process.env.SIMULATED_FAULT)?.mutant ?? {};

// The simulator's stores pass the contracts of the stores that they replace.
const log = new LogServer(REAL_HOST, () => 0, faulty.log);
const openLog = (manners?: LogManners) => {
  const opened = new SimulatedEventLog(log, { reads: realConnection(), appends: realConnection() }, manners);
  return Promise.resolve(faulty.service?.log?.(opened) ?? opened);
};
eventLogContract('simulated', () => openLog());
eventLogErasureContract('simulated', () => openLog());
eventLogErasureContract('simulated, in steps', () => openLog({ erasesInSteps: true, erasesForMs: 0 }));

for (const asRedis of [false, true]) {
  const name = asRedis ? 'simulated, as Redis' : 'simulated';
  const lists = new Map<string, ListServer>();
  const openLists = (logIdentity: string) => {
    const server = lists.get(logIdentity) ?? new ListServer(REAL_HOST, faulty.lists);
    lists.set(logIdentity, server);
    const opened = new SimulatedLists(server, realConnection(), () => 1, { asRedis });
    return Promise.resolve(faulty.service?.model?.(opened) ?? opened);
  };
  readModelContract(name, openLists);
  blockedOwnersContract(name, openLists);
}

treeStoreContract('simulated', () => Promise.resolve(new SimulatedTree(new TreeDisk(() => 0, faulty.tree))));

/** A hostile client in a process of its own: the name of the attack and the target are its arguments. */
import { setPriority } from 'node:os';
import { ATTACKS, type AttackName, type Target } from './attacks.js';

// A remote client has a processor of its own. This one takes what the service and its other clients leave.
setPriority(19);
const [name = '', target = ''] = process.argv.slice(2);
ATTACKS[name as AttackName](JSON.parse(target) as Target);
process.once('disconnect', () => process.exit());

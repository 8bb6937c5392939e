import { join } from 'node:path';
import { temporaryFolder } from '../support/temporary-folder.js';
import { sqliteClients } from '../support/sqlite-clients.js';
import { eventLogContract } from './event-log.contract.js';
import { eventLogErasureContract } from './event-log-erasure.contract.js';

const folder = temporaryFolder();

eventLogContract('sqlite', sqliteClients(join(folder, 'new', 'events.db')));
eventLogErasureContract('sqlite', sqliteClients(join(folder, 'erasing', 'events.db')));

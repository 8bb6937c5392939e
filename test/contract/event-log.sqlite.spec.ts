import { afterAll } from '@jest/globals';
import { join } from 'node:path';
import { temporaryFolder } from '../support/log-events.js';
import { sqliteClients } from '../support/sqlite-clients.js';
import { eventLogContract } from './event-log.contract.js';
import { eventLogErasureContract } from './event-log-erasure.contract.js';

const folder = temporaryFolder();
afterAll(folder.remove);

eventLogContract('sqlite', sqliteClients(join(folder.path, 'new', 'events.db')));
eventLogErasureContract('sqlite', sqliteClients(join(folder.path, 'erasing', 'events.db')));

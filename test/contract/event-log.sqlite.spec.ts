import { afterAll } from '@jest/globals';
import { join } from 'node:path';
import { openSqliteEventLog } from '../../src/adapters/sqlite/event-log.js';
import { temporaryFolder } from '../support/log-events.js';
import { eventLogContract } from './event-log.contract.js';
import { eventLogErasureContract } from './event-log-erasure.contract.js';

const folder = temporaryFolder();
afterAll(folder.remove);

const open = () => openSqliteEventLog(join(folder.path, 'new', 'events.db'));
eventLogContract('sqlite', open);
eventLogErasureContract('sqlite', open);

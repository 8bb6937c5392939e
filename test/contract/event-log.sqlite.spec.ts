import { afterAll } from '@jest/globals';
import { join } from 'node:path';
import { openSqliteEventLog } from '../../src/adapters/sqlite/event-log.js';
import { temporaryFolder } from '../support/log-events.js';
import { eventLogContract } from './event-log.contract.js';

const folder = temporaryFolder();
afterAll(folder.remove);

eventLogContract('sqlite', () => openSqliteEventLog(join(folder.path, 'new', 'events.db')));

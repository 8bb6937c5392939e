import { type Command } from 'commander';
import { addAuditKey } from './audit-key.js';
import { addBackup } from './backup.js';
import { addCheck } from './check.js';
import { addCompletion } from './completion.js';
import { addConsole } from './console.js';
import { addCopy } from './copy.js';
import { addDemo } from './demo.js';
import { addErase } from './erase.js';
import { addExport } from './export.js';
import { addHistory } from './history.js';
import { addMonitor } from './monitor.js';
import { addRebuild } from './rebuild.js';
import { addServe } from './serve.js';
import { addSkip } from './skip.js';
import { addStatus } from './status.js';
import { addToken } from './token.js';
import { addVerify } from './verify.js';
import { addWitness } from './witness.js';

/** In the order of the help. */
const COMMANDS = [
  addServe,
  addToken,
  addConsole,
  addDemo,
  addCopy,
  addStatus,
  addRebuild,
  addVerify,
  addSkip,
  addErase,
  addBackup,
  addHistory,
  addExport,
  addCheck,
  addAuditKey,
  addWitness,
  addMonitor,
  addCompletion,
];

/** Adds all commands to `program`, and returns it. */
export const addAll = (program: Command): Command => {
  for (const add of COMMANDS) add(program);
  return program;
};

import { type Database } from './database.js';

/** Whether there is a process with this number; a later process with the same number only delays the lease's end. */
const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // another user's
  }
};

/** Writes the lease and the reports of one log's processes; in a transaction of the caller. */
export const coordinationWrites = (db: Database, log: string) => {
  const prepare = (sql: string) => db.prepare(sql);
  const selectLease = prepare('SELECT holder, process, until FROM leases WHERE log = ?');
  const replaceLease = prepare('REPLACE INTO leases (log, holder, process, until) VALUES (?, ?, ?, ?)');
  const deleteLease = prepare('DELETE FROM leases WHERE log = ? AND holder = ?');
  const deleteOldReports = prepare('DELETE FROM reports WHERE log = ? AND until <= ?');
  const replaceReport = prepare('REPLACE INTO reports (log, process, text, until) VALUES (?, ?, ?, ?)');

  const takeLease = (holder: string, forMs: number): boolean => {
    const now = Date.now();
    const lease = selectLease.get(log) as { holder: string; process: number; until: number } | undefined;
    // One that lasts longer than `forMs` was taken before the clock was set back.
    const held = lease && lease.until > now && lease.until <= now + forMs && isRunning(lease.process);
    if (held && lease.holder !== holder) return false;
    replaceLease.run(log, holder, process.pid, now + forMs);
    return true;
  };

  const returnLease = (holder: string): void => {
    deleteLease.run(log, holder);
  };

  const report = (process: string, text: string, forMs: number): void => {
    const now = Date.now();
    deleteOldReports.run(log, now);
    replaceReport.run(log, process, text, now + forMs);
  };

  return { takeLease, returnLease, report };
};

import { BUSY_TIMEOUT_MS, DatabaseSync } from '../../sqlite/database.js';

/** The event that was altered. */
export interface AlteredEvent {
  /** Its number in the file, from 1. */
  readonly seq: number;
  readonly before: string;
  readonly after: string;
}

/**
 * Alters the name of a plant in a stored event, past the triggers that forbid it, as somebody with an SQLite shell could.
 * For `plants demo`, on a log that it has made for that and removes: nothing else may call this. `seq` is an event that
 * created a plant.
 */
export const alterForDemo = (file: string, seq: number, name: string): AlteredEvent => {
  const db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    const { data } = db.prepare('SELECT data FROM events WHERE seq = ?').get(seq) as { data: string };
    const event = JSON.parse(data) as { name: string };
    const triggers = db
      .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'events'")
      .all() as { name: string; sql: string }[];
    for (const trigger of triggers) db.exec(`DROP TRIGGER ${trigger.name}`);
    db.prepare('UPDATE events SET data = ? WHERE seq = ?').run(JSON.stringify({ ...event, name }), seq);
    for (const { sql } of triggers) db.exec(sql);
    return { seq, before: event.name, after: name };
  } finally {
    db.close();
  }
};

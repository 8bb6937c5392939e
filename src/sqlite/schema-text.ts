import { type Database, DatabaseSync } from './database.js';

interface SchemaEntry {
  readonly name: string;
  readonly type: string;
  readonly sql: string;
}

/**
 * Says in one clause how a file's schema differs from what `create` makes; undefined where it does not. Tables, indexes,
 * triggers and views are compared, text by text: a collation or an index changes what a query finds. `mayHave` names
 * tables that do no harm.
 */
export const schemaChange = (
  db: Database,
  create: (model: Database) => void,
  mayHave: readonly string[] = [],
): string | undefined => {
  const model = new DatabaseSync(':memory:');
  try {
    create(model);
    const wanted = entriesOf(model);
    const found = entriesOf(db);
    for (const [name, { type, sql }] of wanted)
      if (found.get(name)?.sql !== sql)
        return `has lost the ${type} ${name} as this version makes it: another program has changed its schema`;
    for (const [name, { type }] of found)
      if (!wanted.has(name) && !mayHave.includes(name))
        return `has the ${type} ${name}, which this service did not make: another program has changed its schema`;
    return undefined;
  } finally {
    model.close();
  }
};

/** By their names; what SQLite makes by itself has no text, or a name of SQLite's own. */
const entriesOf = (db: Database): Map<string, SchemaEntry> => {
  const entries = db
    .prepare(
      "SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )
    .all() as unknown as SchemaEntry[];
  return new Map(entries.map((entry) => [entry.name, { ...entry, sql: withoutComments(entry.sql) }]));
};

/** Comments and white space differ from version to version. */
const withoutComments = (sql: string): string =>
  sql
    .replace(/--[^\n]*/g, '')
    .replace(/\s+/g, ' ')
    .trim();

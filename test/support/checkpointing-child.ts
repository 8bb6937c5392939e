import { DatabaseSync } from '../../src/adapters/sqlite/database.js';

// checkpointing-child.js FILE COMMAND...: writes to FILE and runs these commands of SQLite in turn, until it is killed.
const [, , file = '', ...commands] = process.argv;
const database = new DatabaseSync(file);
database.exec('PRAGMA busy_timeout = 5000');
const put = database.prepare('INSERT INTO texts VALUES (?)');
const remove = database.prepare('DELETE FROM texts');
process.stdout.write('begun\n');
for (let round = 0; ; round += 1) {
  for (let n = round % 7; n >= 0; n -= 1) put.run('x'.repeat(((round + n) * 997) % 9_000));
  if (round % 100 === 99) remove.run();
  try {
    database.exec(commands[round % commands.length] ?? '');
  } catch {
    // Locked by the other one: it is tried again soon.
  }
}

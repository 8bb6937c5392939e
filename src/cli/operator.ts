import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import { type Operator } from '../commands/record-rebuilds.js';

/** The operating system's name of the user, for the audit trail. */
export const operatorHere = (nameOfUser: () => string = () => userInfo().username): Operator => ({
  actor: { sub: `cli:${named(nameOfUser)}` },
  correlationId: randomUUID(),
  commandId: randomUUID(),
});

/** In a container a user often has a number only. */
const named = (nameOfUser: () => string): string => {
  try {
    return nameOfUser();
  } catch {
    return `user ${process.getuid?.() ?? ''}`.trim();
  }
};

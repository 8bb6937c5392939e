import { type Server } from 'node:http';
import { type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Turns of the event loop in a row without a connection: the first may have begun before we looked. */
const QUIET_TURNS = 2;

/** Milliseconds after which connections that keep coming are left. */
const GIVE_UP_MS = 1_000;

/**
 * Accepts the connections that are waiting, calls `closeListener`, which must close the listening socket before it
 * returns, and only then reads from them. The kernel completes connections before a process accepts them, and resets
 * those that were not accepted when the listening socket is closed.
 *
 * Nothing is read from new connections meanwhile, since libuv accepts one in each turn of the event loop: clients
 * that are answered and connect again would keep the queue full, and long turns would keep it long. What is still
 * lost is what the kernel completes in the microseconds between the last look and the close, and what comes faster
 * than it can be accepted for GIVE_UP_MS.
 */
export const closeAfterAccepting = async (server: Server, closeListener: () => void): Promise<void> => {
  const held: Socket[] = [];
  let quiet = 0;
  const hold = (socket: Socket): void => {
    quiet = -1;
    held.push(socket);
    // Not at once: Node makes a new socket flow in its next tick, before anything is read.
    process.nextTick(() => socket.pause());
  };
  server.on('connection', hold);
  const giveUp = performance.now() + GIVE_UP_MS;
  while (quiet < QUIET_TURNS && performance.now() < giveUp) {
    await nextTurn(); // runs after the event loop has accepted what it accepts in one turn
    quiet += 1;
  }
  closeListener();
  server.off('connection', hold);
  for (const socket of held) socket.resume();
};

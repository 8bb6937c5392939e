/** Somebody asked a command to stop. The message is one line that says what is left to do. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

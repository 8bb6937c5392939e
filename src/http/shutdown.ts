/** Whether the process has begun to stop: it is not ready then, but still answers. */
export class Shutdown {
  begun = false;
}

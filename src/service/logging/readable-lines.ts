import { type DestinationStream } from 'pino';
import pretty from 'pino-pretty';

/** Makes a line for people of each line of the log, on standard output or `destination`. */
export const readableLog = (destination?: DestinationStream): DestinationStream =>
  pretty({
    ignore: 'pid,host,role,version',
    translateTime: 'SYS:HH:MM:ss.l',
    ...(destination && { destination }),
  });

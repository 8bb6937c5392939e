import { type NestFastifyApplication } from '@nestjs/platform-fastify';
import { type ListenAddress } from './network-config.js';
import { StartError } from './start-error.js';

/** Throws StartError, with the names of the settings, where the address cannot be used. */
export const listen = async (
  app: NestFastifyApplication,
  { host, port }: ListenAddress,
  settings: { readonly host: string; readonly port: string },
): Promise<void> => {
  try {
    // Fastify would open a second server for the other address of `localhost`, without what is set up on the first.
    await app.listen(port, host === 'localhost' ? '127.0.0.1' : host);
  } catch (error) {
    const code = String((error as NodeJS.ErrnoException).code);
    const noAddress = `${settings.host} ${host} is no address of this machine`;
    const reasons = new Map([
      [
        'EADDRINUSE',
        `port ${port} of ${host} is in use: stop what listens there, or set ${settings.port} to another one`,
      ],
      ['EACCES', `port ${port} may not be used by this user: set ${settings.port} to one above 1023`],
      ['EADDRNOTAVAIL', noAddress],
      ['ENOTFOUND', noAddress],
    ]);
    const reason = reasons.get(code);
    if (reason !== undefined) throw new StartError(reason);
    throw error;
  }
};

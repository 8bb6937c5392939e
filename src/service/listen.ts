import { type AddressInfo, isIPv6 } from 'node:net';
import { type NestFastifyApplication } from '@nestjs/platform-fastify';
import { type ListenAddress } from './network-config.js';
import { StartError } from './start-error.js';

/** The URLs' hosts for addresses that stand for every one of this machine. */
const LOOPBACKS: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** Returns the URL. Throws StartError, with the names of the settings, where the address cannot be used. */
export const listen = async (
  app: NestFastifyApplication,
  { host, port }: ListenAddress,
  settings: { readonly host: string; readonly port: string },
): Promise<string> => {
  await app.init();
  try {
    // Not by Nest, which writes a line of its own for an error. Fastify would open a second server for the other address
    // of `localhost`, without what is set up on the first.
    const fastify = app.getHttpAdapter().getInstance();
    await fastify.listen({ port, host: host === 'localhost' ? '127.0.0.1' : host });
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    if (code === 'EADDRINUSE')
      throw new StartError(
        `port ${port} of ${host} is in use: stop what listens there, or set ${settings.port} to another one`,
      );
    if (code === 'EACCES')
      throw new StartError(
        `port ${port} may not be used by this user: set ${settings.port} to one above 1023`,
      );
    throw new StartError(`${settings.host} ${host} is no address of this machine (${code ?? ''})`);
  }
  const { address, port: bound } = app.getHttpServer().address() as AddressInfo;
  const named = LOOPBACKS[address] ?? address;
  return `http://${isIPv6(named) ? `[${named}]` : named}:${bound}`;
};

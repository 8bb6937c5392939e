import { isIP } from 'node:net';
import tls, { type ConnectionOptions } from 'node:tls';

let isSet = false;

/**
 * Makes `tls.connect` send no server name that is an IP address: grpc-js sends one and has no option
 * (https://github.com/grpc/grpc-node/issues/1919), RFC 6066 forbids it, and Node 26 throws. The certificate is still
 * compared with `host`.
 */
export const sendNoAddressAsServerName = (): void => {
  if (isSet) return;
  isSet = true;
  const connect = tls.connect.bind(tls) as (...args: unknown[]) => tls.TLSSocket;
  const replaced = (first: unknown, ...rest: unknown[]): tls.TLSSocket => {
    const { servername, host } = Object(first) as ConnectionOptions;
    const isAddress = servername !== undefined && servername === host && isIP(servername) !== 0;
    return connect(isAddress ? { ...(first as ConnectionOptions), servername: '' } : first, ...rest);
  };
  Object.assign(tls, { connect: replaced });
};

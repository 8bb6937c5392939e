import { type IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import { Problem } from './problem.js';
import { countHeader } from './requests.js';

/**
 * Refuses what is no request of HTTP/1.1 (RFC 9112), or what a proxy before us may understand differently than we do,
 * as far as Node lets it pass. After a fault in the framing of the message its connection is closed.
 */
export const messageFault = (request: IncomingMessage): Problem | undefined => {
  const { headers, rawHeaders, httpVersion, url = '' } = request;
  const hosts = countHeader(rawHeaders, 'host');
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return faultyFraming('The version of the request line must be HTTP/1.1 or HTTP/1.0.'); // section 2.3
  if (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined)
    return faultyFraming('A request of HTTP/1.0 has no Transfer-Encoding.'); // section 6.1
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1'))
    return malformed('A request has exactly one Host header.'); // section 3.2
  if (headers.host !== undefined && !isAuthority(headers.host))
    return malformed('The Host header must be a host name or an IP address, and a port where there is one.');
  if (url.includes('#'))
    return malformed('The target of a request has no fragment: leave out the # and what follows.');
  const absolute = ABSOLUTE.exec(url);
  if (absolute && !isAuthority(absolute[1] ?? ''))
    return malformed('The target of the request names no valid host: it has no user name and no password.');
  if (countHeader(rawHeaders, 'content-type') > 1)
    return malformed('A request has at most one Content-Type header.'); // RFC 9110, 5.3
  if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue')
    return new Problem('expectation_failed', 'Expect may be 100-continue, and nothing else.');
  return undefined;
};

/**
 * The target of a request without the scheme and host of its absolute form (RFC 9112, section 3.2.2), which name this
 * service; unchanged where the host is none, for `messageFault`.
 */
export const originForm = (url: string): string => {
  const [whole, host = ''] = ABSOLUTE.exec(url) ?? [];
  if (whole === undefined || !isAuthority(host)) return url;
  const rest = url.slice(whole.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
};

const ABSOLUTE = /^https?:\/\/([^/?]*)/i;

const malformed = (detail: string): Problem => new Problem('malformed_request', detail);

const faultyFraming = (detail: string): Problem =>
  new Problem('malformed_request', detail, { headers: { Connection: 'close' } });

/** The host of a URI (RFC 3986, section 3.2.2), never empty, and the port that may follow it. */
const isAuthority = (text: string): boolean => {
  if (/^[\w.-]{1,255}(?::\d{1,4})?$/.test(text)) return true; // as nearly all are
  const [, host = '', port = ''] =
    /^(\[[0-9A-Fa-f:.]{2,45}\]|[^:[\]]{1,255})(?::(\d{0,5}))?$/.exec(text) ?? [];
  if (Number(port) > 65_535) return false;
  if (host.startsWith('[')) return isIPv6(host.slice(1, -1));
  return /^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$/.test(host);
};

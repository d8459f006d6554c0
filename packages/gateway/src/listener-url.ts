import type { AddressInfo } from 'node:net';

/** `http://host:port` of a bound listener, `0.0.0.0` where it listens on every address. */
export function listenerUrl({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

import type { AddressInfo } from 'node:net';

/** `http://host:port` (or https) of a bound listener, `0.0.0.0` where it listens on every address. */
export function listenerUrl(address: AddressInfo, scheme: 'http' | 'https' = 'http'): string {
  return `${scheme}://${listenerHost(address)}`;
}

/** `host:port` of it. */
export function listenerHost({ address, family, port }: AddressInfo): string {
  return `${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

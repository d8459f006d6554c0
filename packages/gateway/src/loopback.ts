import { BlockList, isIP, isIPv6 } from 'node:net';

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** What proxies add to what they pass on: the connection is theirs then, not the caller's. */
export const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'] as const;

/** An address, or the name of one, that leads nowhere but to its own machine. */
export function isLoopback(address: string): boolean {
  if (address === 'localhost') return true;
  return isIP(address) !== 0 && LOOPBACK.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

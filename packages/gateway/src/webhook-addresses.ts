/** Addresses to which no webhook is ever sent, whatever is allowed. */
import { type LookupAddress, lookup } from 'node:dns';
import { BlockList, isIP, isIPv6, type LookupFunction } from 'node:net';

export const NEVER_CALLED =
  'its address is one where clouds keep credentials of a machine, or a link-local one: nothing is sent there';

/** An IPv4 address counts in its IPv6 form too. */
const NEVER = new BlockList();
/** Link-local: nearly all clouds tell machines and containers their credentials there. */
NEVER.addSubnet('169.254.0.0', 16, 'ipv4');
NEVER.addSubnet('fe80::', 10, 'ipv6');
/** The same through NAT64 and 6to4, and as IPv6 once wrote it. */
NEVER.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
NEVER.addSubnet('2002:a9fe::', 32, 'ipv6');
NEVER.addSubnet('::a9fe:0', 112, 'ipv6');
/** EC2 and EKS, Google, Alibaba, Azure. */
NEVER.addSubnet('fd00:ec2::', 32, 'ipv6');
NEVER.addAddress('fd20:ce::254', 'ipv6');
NEVER.addAddress('100.100.100.200', 'ipv4');
NEVER.addAddress('168.63.129.16', 'ipv4');

/** Of a host: a name is none. */
export function isNeverCalled(host: string): boolean {
  const [address = ''] = host.replace(/^\[|\]$/g, '').split('%');
  return isIP(address) !== 0 && NEVER.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

/** Looks a name up as the connection is made; fails where it leads to one of these addresses. */
export const lookUpCallable: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, options, (error, found: string | LookupAddress[], family?: number) => {
    const addresses = typeof found === 'string' ? [found] : (found ?? []).map(({ address }) => address);
    if (error === null && addresses.some(isNeverCalled)) callback(new Error(NEVER_CALLED), '');
    else callback(error, found, family);
  });
};

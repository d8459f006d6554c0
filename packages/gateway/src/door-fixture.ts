/** What the servers of both doors are made from, over a gateway fixture; only tests import this. */
import { createLog, systemClock } from '@nereid/runtime';
import type { GatewayFixture } from './gateway-fixture.ts';
import { servicesFixture } from './services-fixture.ts';

export function doorFixture({ gateway, directory }: Pick<GatewayFixture, 'gateway' | 'directory'>) {
  return {
    gateway,
    services: servicesFixture(directory),
    clock: systemClock(),
    log: createLog({ level: 'silent' }),
    serverId: 'triton',
    version: '0.1.0',
    address: '127.0.0.1',
    port: 0,
  };
}

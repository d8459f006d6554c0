/** Courses of events that seeds alone would take long to meet. */
import { redisKeys } from '@nereid/transport';
import { REDIS_PREFIX } from './sim-cluster.ts';
import type { Course } from './simulate.ts';

const OWNERS = redisKeys(REDIS_PREFIX).directoryOwners('all');
const JOIN_US = 300_000;
const BLIP_US = 1_500_000;
const LOOK_US = 1_000;
/** No epoch has changed for so long: the owner has them all. */
const SETTLED_US = 20_000;
const AWAY_US = 5_000_000;

/**
 * Equal epochs of two owners: the only coordinator takes new ones after a lost connection, Redis
 * forgets them, the coordinator can no longer renew though its mailbox works, and another that has
 * joined meanwhile gets the same numbers. Needs one coordinator at the start.
 */
export function equalEpochs({ world, cluster, redis }: Course): void {
  const [first] = cluster.living('coordinator');
  const epochs = () => [...redis.hash(OWNERS).values()].join();
  world.at(world.nowUs() + JOIN_US, () => void cluster.start('coordinator'));
  world.at(world.nowUs() + BLIP_US, () => {
    const brokenUs = world.nowUs();
    const before = epochs();
    let last = before;
    let lastUs = brokenUs;
    const look = () => {
      const now = epochs();
      if (now !== last) lastUs = world.nowUs();
      last = now;
      if (now === before || world.nowUs() - lastUs < SETTLED_US) {
        world.at(world.nowUs() + LOOK_US, look);
        return;
      }
      for (const { connector } of cluster.members) connector.breakUp(0);
      first?.connector.breakUp(AWAY_US, 'directory');
      redis.restart(world.nowUs() - brokenUs);
    };
    first?.connector.breakUp(0, 'pops');
    look();
  });
}

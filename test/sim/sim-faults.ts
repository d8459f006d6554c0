/** What goes wrong in a simulation, and when. */
import type { Random } from '@nereid/runtime';
import { type MainRole, redisKeys } from '@nereid/transport';
import type { SimClients } from './sim-clients.ts';
import type { Member, SimCluster } from './sim-cluster.ts';
import { REDIS_PREFIX } from './sim-cluster.ts';
import { between, pick, type SimModel } from './sim-models.ts';
import type { SimRedis } from './sim-redis.ts';
import type { SimWorld } from './sim-world.ts';

const ROLES: readonly MainRole[] = ['gateway', 'coordinator', 'worker'];
const FAULTS = [
  'kill',
  'kill',
  'pause',
  'stutter',
  'partition',
  'blip',
  'blip',
  'lapse',
  'wipe',
  'rollback',
  'failover',
  'leave',
  'join',
  'reload',
  'burst',
  'evict',
] as const;

export type Fault = (typeof FAULTS)[number];

export interface FaultsOptions {
  readonly world: SimWorld;
  readonly random: Random;
  readonly cluster: SimCluster;
  readonly redis: SimRedis;
  readonly clients: SimClients;
  readonly models: readonly SimModel[];
  /** Kinds that may happen. */
  readonly kinds: readonly Fault[];
  /** Roles that kills, pauses and broken connections hit. */
  readonly victims: readonly MainRole[];
  /** R1 off: who died comes back under its old id. */
  readonly sameIds: boolean;
  readonly reload: (model: string) => void;
  readonly note: (text: string) => void;
}

export interface SimFaults {
  /** A fault every `gapUs` on average from one time to another. */
  storm(fromUs: number, untilUs: number, gapUs: number): void;
  /** One fault at that time. */
  once(atUs: number): void;
}

const PAUSE_US_MIN = 500_000;
const PAUSE_US_MAX = 6_000_000;
const STUTTER_US_MAX = 500_000;
const CUT_US_MAX = 4_000_000;
const BLIP_US_MAX = 300_000;
const LAPSE_US_MIN = 1_000_000;
const LAPSE_US_MAX = 5_000_000;
const REDIS_DOWN_US_MAX = 500_000;
const ROLLBACK_US_MAX = 1_000_000;
const FAILOVER_US_MAX = 300_000;
const BACK_US_MAX = 1_500_000;
const BURST = 60;
const BLOBS = redisKeys(REDIS_PREFIX).blob('').replace(/\{\}$/, '');

export function createSimFaults(options: FaultsOptions): SimFaults {
  const { world, random, cluster, redis, clients, kinds, note } = options;

  const victim = (): Member | undefined => {
    const living = cluster.living().filter(({ role }) => options.victims.includes(role));
    return living.length === 0 ? undefined : pick(random, living);
  };

  const startLater = ({ role, id }: Member) =>
    world.at(world.nowUs() + random.next() * BACK_US_MAX, () => {
      note(`start ${role}`);
      cluster.start(role, options.sameIds ? id : undefined);
    });

  const restartRedis = (lostUs: number) => {
    note(`redis forgets ${(lostUs / 1e6).toFixed(3)} s`);
    const downUs = random.next() * REDIS_DOWN_US_MAX;
    for (const { connector } of cluster.members) connector.breakUp(downUs);
    redis.restart(lostUs);
  };

  const onVictim = (what: string, act: (member: Member) => void) => {
    const member = victim();
    if (member === undefined) return;
    note(`${what} ${member.id}`);
    act(member);
  };

  const actions: Readonly<Record<Fault, () => void>> = {
    kill: () =>
      onVictim('kill', (member) => {
        member.process.kill();
        startLater(member);
      }),
    pause: () => onVictim('pause', ({ process }) => process.stall(between(random, PAUSE_US_MIN, PAUSE_US_MAX))),
    stutter: () => {
      note('stutter');
      for (const { process } of cluster.living())
        if (random.next() < 0.7) process.stall(random.next() * STUTTER_US_MAX);
    },
    partition: () => onVictim('cut', ({ connector }) => connector.cut(random.next() * CUT_US_MAX)),
    blip: () =>
      onVictim('blip', ({ connector }) => {
        const kind = pick(random, ['all', 'pushes', 'pops', 'pops', 'directory'] as const);
        connector.breakUp(random.next() ** 3 * BLIP_US_MAX, kind === 'all' ? undefined : kind);
      }),
    // Mailboxes work, but leases and registrations cannot be renewed.
    lapse: () =>
      onVictim('lapse', ({ connector }) => connector.breakUp(between(random, LAPSE_US_MIN, LAPSE_US_MAX), 'directory')),
    wipe: () => restartRedis(Number.POSITIVE_INFINITY),
    rollback: () => restartRedis(random.next() * ROLLBACK_US_MAX),
    failover: () => restartRedis(random.next() * FAILOVER_US_MAX),
    leave: () =>
      onVictim('leave', (member) => {
        member.process.at(0, () => void member.stop());
        startLater(member);
      }),
    join: () => {
      const role = pick(random, ROLES);
      note(`join ${role}`);
      cluster.start(role);
    },
    reload: () => {
      const { name } = pick(random, options.models);
      note(`reload ${name}`);
      options.reload(name);
    },
    // As under a policy that evicts keys, or with a clock that jumps.
    evict: () => {
      const blobs = redis.keys().filter((key) => key.startsWith(BLOBS));
      note(`evict ${blobs.length} blobs`);
      for (const key of blobs) redis.delete(key);
    },
    burst: () => {
      note('burst');
      clients.burst(BURST);
    },
  };

  const strike = () => {
    if (kinds.length > 0) actions[pick(random, kinds)]();
  };

  return {
    storm(fromUs, untilUs, gapUs) {
      const goOn = () => {
        if (world.nowUs() >= untilUs) return;
        strike();
        world.at(world.nowUs() + between(random, 0, 2 * gapUs), goOn);
      };
      world.at(fromUs + between(random, 0, gapUs), goOn);
    },
    once: (atUs) => void world.at(atUs, strike),
  };
}

/** Kinds by how often each shall happen. */
export const FAULT_MIX: readonly Fault[] = FAULTS;

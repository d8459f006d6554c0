import { answeredWithin, type Clock, type Log } from '@nereid/runtime';
import { createHeartbeat } from './heartbeat.ts';
import { isRefusal, type RedisConnection, type RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { LATE, RESOURCE_KEYS, resourcesScript } from './resources-script.ts';
import {
  isEmptyClaim,
  type ResourceClaim,
  type ResourceCounts,
  type ResourceMember,
  type ResourceMemberParts,
  type SharedResources,
} from './shared-resources.ts';
import type { Timing } from './timing.ts';

/**
 * A claim is told again after so many heartbeats, so that nothing rests on a notice that was lost, nor on a Redis that
 * was wiped. Shorter than the grace that begins with a new run of Redis.
 */
const LOOK_HEARTBEATS = 2;
/** Claims are kept for so many leases without a call; those who have any call more often. */
const KEPT_LEASES = 30;
/** How long a close waits until it is heard. */
const CLOSE_MS_MAX = 1_000;

export interface RedisResourcesOptions {
  readonly connector: RedisConnector;
  readonly prefix: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
}

interface Connections {
  readonly commands: RedisConnection;
  readonly changes: RedisConnection;
}

interface WithResourcesScript {
  nereidResources(...keysAndArgs: readonly string[]): Promise<unknown>;
}

/**
 * Resources that the workers of a cluster share, in Redis. It is called at each change of a claim, when a notice
 * names the worker, and now and then; and dialled only once there is anything to tell.
 */
export function createRedisResources(options: RedisResourcesOptions): SharedResources {
  return { open: (parts) => openMember(options, parts) };
}

/**
 * States: *silent* until the first claim that is not empty; *telling* then, one call at a time, until such a one is
 * empty and heard; *closed*.
 */
function openMember(options: RedisResourcesOptions, { id, granted }: ResourceMemberParts): ResourceMember {
  const { connector, prefix, clock, log, timing } = options;
  const names = redisKeys(prefix);
  const keys = RESOURCE_KEYS.map((name) => names[name]('all'));
  const channel = names.resourceChanges('all');
  const graceMs = Math.max(timing.lease_ms, timing.worker_registration_ms);
  // Redis takes whole milliseconds only.
  const ttlMs = Math.ceil(timing.lease_ms * KEPT_LEASES);
  let connections: Connections | undefined;
  let claim: ResourceClaim | undefined;
  let sequence = 0;
  let run = '';
  /** Redis knows nothing of this worker, as far as it could be told. */
  let isSilent = true;
  let isAway = false;
  let closed = false;

  const dial = () => {
    const commands = connector.connect('resources');
    const changes = connector.connect('resources-changes');
    commands.client.defineCommand('nereidResources', { numberOfKeys: keys.length, lua: resourcesScript() });
    commands.watch((event) => {
      if (event === 'ready') heartbeat.soon();
    });
    changes.client.on('message', (_channel: string, notice: string) => {
      if (notice.split(' ').includes(id())) heartbeat.soon();
    });
    changes.watch((event) => {
      if (event !== 'ready') return;
      changes.client.subscribe(channel).catch(() => {});
      // For what was published meanwhile.
      heartbeat.soon();
    });
    for (const connection of [commands, changes]) connection.ready().catch(() => {});
    return { commands, changes };
  };

  const call = ({ client }: RedisConnection, told: ResourceClaim | undefined) => {
    const args = [channel, id(), `${++sequence}`, run, `${graceMs}`, `${ttlMs}`];
    const scripted = client as typeof client & WithResourcesScript;
    return scripted.nereidResources(...keys, ...args, told === undefined ? '' : claimText(told));
  };

  const take = (answer: readonly unknown[], told: ResourceClaim | undefined) => {
    const [name, isGranted] = answer;
    if (name === LATE) return;
    if (run !== '' && run !== name) log.warn({ run: name }, 'Redis began anew: claiming shared resources again');
    run = String(name);
    if (Number(isGranted) === 1 && told !== undefined) granted(told.wish);
  };

  /** False where it was not heard, which the next beat makes up for. */
  const sync = async ({ commands }: Connections, told: ResourceClaim | undefined): Promise<boolean> => {
    if (!commands.isReady) return false;
    try {
      take((await answeredWithin(call(commands, told), timing.lease_ms, clock)) as readonly unknown[], told);
      isAway = false;
      return true;
    } catch (error) {
      if (connections === undefined) return false;
      if (!isAway) log.warn({ err: error }, 'Redis does not answer about shared resources');
      isAway = true;
      // Nothing is to be asked behind what is not answered. After a refusal there is nothing to wait for.
      if (!isRefusal(error) && commands.isReady) commands.client.disconnect(true);
      return false;
    }
  };

  const heartbeat = createHeartbeat(clock, timing.heartbeat_ms * LOOK_HEARTBEATS * 1000, async () => {
    const told = claim;
    const heard = connections !== undefined && (await sync(connections, told));
    if (!heard || told !== undefined || claim !== undefined) return;
    heartbeat.stop();
    isSilent = true;
    // Claims may run out while nobody calls, which is no loss.
    run = '';
  });

  const tell = (next: ResourceClaim | undefined) => {
    if (closed || (next === undefined && claim === undefined)) return;
    claim = next;
    isSilent = false;
    connections ??= dial();
    heartbeat.start();
    heartbeat.soon();
  };

  return {
    tell: (next) => tell(isEmptyClaim(next) ? undefined : next),
    look() {
      if (claim !== undefined) heartbeat.soon();
    },
    async close() {
      closed = true;
      heartbeat.stop();
      if (connections === undefined) return;
      const { commands, changes } = connections;
      if (!isSilent && commands.isReady) {
        claim = undefined;
        // What it holds is free once its registration ends, at the latest.
        await answeredWithin(call(commands, undefined), CLOSE_MS_MAX, clock).catch(() => {});
      }
      connections = undefined;
      commands.close();
      changes.close();
    },
  };
}

function claimText({ limits, held, wanted, wish }: ResourceClaim): string {
  const counts = (of: ResourceCounts) => Object.fromEntries(of);
  return JSON.stringify({ limits: counts(limits), held: counts(held), wanted: counts(wanted), wish });
}

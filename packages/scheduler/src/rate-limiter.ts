import type { ResourceLimit } from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import {
  availableStock,
  type NeededStock,
  neededStock,
  type ResourceCounts,
  type ResourceUser,
  type Stock,
} from './rate-resources.ts';

/** Names an instance among all that one limiter knows. */
export type LimitedKey = number;

export interface LimitedInstance extends ResourceUser {
  readonly key: LimitedKey;
  /** Chances to run are shared out by its inverse; 0 counts as 1. */
  readonly priority: number;
}

export type RateEvent =
  /** A batch waits for the instance, which runs none. */
  | { readonly type: 'staged'; readonly instance: LimitedKey }
  /** The instance is not to run: its batch is not wanted any more, or it cannot run at present. */
  | { readonly type: 'unstaged'; readonly instance: LimitedKey }
  /** Its execution is over, however it ended; `staged`: the next batch waits already. */
  | { readonly type: 'ended'; readonly instance: LimitedKey; readonly staged: boolean }
  /** The instance is gone, with what it holds. */
  | { readonly type: 'removed'; readonly instance: LimitedKey }
  /** What the wish of that number asked for is this limiter's now. */
  | { readonly type: 'granted'; readonly wish: number };

/** What a limiter has to tell whoever shares out the resources that are global. */
export interface SharedClaim {
  /** How much there is of each. */
  readonly limits: ResourceCounts;
  readonly held: ResourceCounts;
  /** What the instance whose turn it is needs, all or nothing; empty while none asks. */
  readonly wanted: ResourceCounts;
  /** Another number for each wish, from 1 on. */
  readonly wish: number;
}

/** Triton's rate limiter; see `createRateLimiter`. */
export interface RateLimiter {
  /** Takes instances in, all or, with the reason, none. */
  add(instances: readonly LimitedInstance[]): ErrorInfo | undefined;
  /** The instances that are to run now, in this order; events about unknown instances do nothing. */
  step(event: RateEvent): readonly LimitedKey[];
  /** Another object whenever it has changed. */
  readonly shared: SharedClaim;
}

interface Member {
  readonly instance: LimitedInstance;
  readonly needs: NeededStock;
  state: 'idle' | 'staged' | 'asking' | 'running';
  executions: number;
}

const NOTHING: ResourceCounts = new Map();

/**
 * Says which instances of one worker may run (core/src/rate_limiter.cc; the order is
 * `--rate-limit=execution_count`): an instance holds all that it needs from the moment at which it is to
 * run until its execution has ended. Those that wait are tried in the order of executions × priority, least
 * first, then as they were staged. Only the first is tried: while it does not find what it needs nothing
 * overtakes it, so that one that needs much is not starved by those that need little.
 *
 * An instance is *idle*, *staged*, *running* or, where it needs global resources too and is the first whose
 * own device has enough, *asking* for these. It stays the first then, and holds nothing yet: whatever is
 * held, here or in the cluster, is held by an execution, which ends without waiting for anything. So no two
 * workers can wait for each other.
 *
 * Unlike Triton, which grants one instance an event, all are granted that can be.
 */
export function createRateLimiter(explicit: readonly ResourceLimit[]): RateLimiter {
  const members = new Map<LimitedKey, Member>();
  /** In the order in which they were staged. */
  const staged = new Set<Member>();
  const used = new Map<number, Map<string, number>>();
  const held = new Map<string, number>();
  let stock: Stock = { devices: new Map(), shared: NOTHING };
  let asking: Member | undefined;
  let wish = 0;
  let shared: SharedClaim = { limits: NOTHING, held: NOTHING, wanted: NOTHING, wish };

  const tell = () => {
    const wanted = asking?.needs.shared ?? NOTHING;
    shared = { limits: stock.shared, held: new Map([...held].filter(([, count]) => count > 0)), wanted, wish };
  };

  const fits = ({ instance, needs }: Member) => {
    const available = stock.devices.get(instance.device) ?? NOTHING;
    const taken = used.get(instance.device) ?? NOTHING;
    for (const [name, count] of needs.local) {
      if ((taken.get(name) ?? 0) + count > (available.get(name) ?? 0)) return false;
    }
    return true;
  };

  const hold = ({ instance, needs }: Member, sign: 1 | -1) => {
    const device = used.get(instance.device) ?? new Map<string, number>();
    used.set(instance.device, device);
    for (const [name, count] of needs.local) device.set(name, (device.get(name) ?? 0) + sign * count);
    if (needs.shared.size === 0) return;
    for (const [name, count] of needs.shared) held.set(name, (held.get(name) ?? 0) + sign * count);
    tell();
  };

  const first = () => {
    let best: Member | undefined;
    for (const member of staged) if (best === undefined || turn(member) < turn(best)) best = member;
    return best;
  };

  const run = (member: Member) => {
    staged.delete(member);
    member.state = 'running';
    hold(member, 1);
    return member.instance.key;
  };

  const stopAsking = () => {
    if (asking?.state === 'asking') asking.state = 'staged';
    asking = undefined;
    tell();
  };

  const grant = () => {
    const granted: LimitedKey[] = [];
    for (let next = first(); asking === undefined && next !== undefined && fits(next); next = first()) {
      if (next.needs.shared.size === 0) granted.push(run(next));
      else {
        next.state = 'asking';
        asking = next;
        wish++;
        tell();
      }
    }
    return granted;
  };

  const stage = (member: Member) => {
    member.state = 'staged';
    staged.add(member);
  };

  /** Takes it out of whatever it is in. */
  const leave = (member: Member) => {
    if (member === asking) stopAsking();
    if (member.state === 'running') hold(member, -1);
    staged.delete(member);
    member.state = 'idle';
  };

  /** The worker's own device may have less than before, where the greediest instance has gone meanwhile. */
  const take = (number: number) => {
    const member = asking;
    if (member === undefined || number !== wish) return [];
    const runs = fits(member);
    stopAsking();
    return runs ? [run(member)] : [];
  };

  const measure = (users: Iterable<ResourceUser>) => {
    const available = availableStock(users, explicit);
    if (!available.ok) return available.error;
    stock = available.stock;
    tell();
    return undefined;
  };

  return {
    add(instances) {
      const error = measure([...[...members.values()].map(({ instance }) => instance), ...instances]);
      if (error !== undefined) return error;
      for (const instance of instances) {
        members.set(instance.key, { instance, needs: neededStock(instance), state: 'idle', executions: 0 });
      }
      return undefined;
    },
    step(event) {
      if (event.type === 'granted') return [...take(event.wish), ...grant()];
      const member = members.get(event.instance);
      if (member === undefined) return [];
      switch (event.type) {
        case 'staged':
          if (member.state === 'idle') stage(member);
          break;
        case 'unstaged':
          if (member.state !== 'running') leave(member);
          break;
        case 'ended':
          if (member.state !== 'running') break;
          leave(member);
          member.executions++;
          if (event.staged) stage(member);
          break;
        case 'removed':
          leave(member);
          members.delete(event.instance);
          // With fewer instances there is nothing that could be too little.
          measure([...members.values()].map(({ instance }) => instance));
          break;
      }
      return grant();
    },
    get shared() {
      return shared;
    },
  };
}

function turn({ instance, executions }: Member): number {
  return executions * Math.max(1, instance.priority);
}

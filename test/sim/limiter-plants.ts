/** A rate limiter that is wrong in one way, for instances that need what their worker or what all share. */
import type { LimitedInstance, LimitedKey, RateLimiter, SharedClaim } from '@nereid/scheduler';

export type LimiterPlant =
  | 'another overtakes the first'
  | 'every instance has the same chances'
  | 'not released where it ran and is gone'
  | 'released twice'
  | 'released at once'
  | 'global counted per worker';

interface Member {
  readonly instance: LimitedInstance;
  state: 'idle' | 'staged' | 'running';
  executions: number;
}

const NO_CLAIM: SharedClaim = { limits: new Map(), held: new Map(), wanted: new Map(), wish: 0 };

export function createWrongLimiter(plant: LimiterPlant): RateLimiter {
  const members = new Map<LimitedKey, Member>();
  const used = new Map<string, number>();
  const stock = new Map<string, number>();
  const key = (instance: LimitedInstance, name: string) => `${instance.device}/${name}`;

  const hold = ({ instance }: Member, sign: number) => {
    for (const { name, count } of instance.resources) {
      const place = key(instance, name);
      used.set(place, (used.get(place) ?? 0) + sign * count);
    }
  };
  const fits = ({ instance }: Member) =>
    instance.resources.every(
      ({ name, count }) => (used.get(key(instance, name)) ?? 0) + count <= (stock.get(key(instance, name)) ?? 0),
    );
  const turn = ({ instance, executions }: Member) =>
    plant === 'every instance has the same chances' ? 0 : executions * Math.max(1, instance.priority);

  const grant = (): LimitedKey[] => {
    const granted: LimitedKey[] = [];
    for (;;) {
      const waiting = [...members.values()].filter(({ state }) => state === 'staged');
      waiting.sort((a, b) => turn(a) - turn(b));
      const [first] = plant === 'another overtakes the first' ? waiting.filter(fits) : waiting;
      if (first === undefined || !fits(first)) return granted;
      members.delete(first.instance.key);
      members.set(first.instance.key, first);
      first.state = 'running';
      if (plant !== 'released at once') hold(first, 1);
      granted.push(first.instance.key);
    }
  };

  const end = (member: Member) => {
    member.executions++;
    if (plant !== 'released at once') hold(member, -1);
    if (plant === 'released twice') hold(member, -1);
  };

  return {
    shared: NO_CLAIM,
    add(instances) {
      for (const instance of instances) {
        members.set(instance.key, { instance, state: 'idle', executions: 0 });
        for (const { name, count } of instance.resources) {
          stock.set(key(instance, name), Math.max(stock.get(key(instance, name)) ?? 0, count));
        }
      }
      return undefined;
    },
    step(event) {
      const member = event.type === 'granted' ? undefined : members.get(event.instance);
      if (member === undefined) return [];
      if (event.type === 'staged' && member.state === 'idle') member.state = 'staged';
      else if (event.type === 'unstaged' && member.state === 'staged') member.state = 'idle';
      else if (event.type === 'ended' && member.state === 'running') {
        end(member);
        member.state = event.staged ? 'staged' : 'idle';
      } else if (event.type === 'removed') {
        if (member.state === 'running' && plant !== 'not released where it ran and is gone') hold(member, -1);
        members.delete(event.instance);
      }
      return grant();
    },
  };
}

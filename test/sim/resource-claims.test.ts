/** Rate limiters of several workers over claims on shared resources: what holds whatever is lost and whoever dies. */
import { createRateLimiter, type RateLimiter } from '@nereid/scheduler';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type KeptClaims, takeClaim } from '../../packages/transport/src/resource-claims.ts';

const INSTANCES = 3;
const THERE_IS = { G: 2, H: 1 } as const;
const NAMES = Object.keys(THERE_IS) as (keyof typeof THERE_IS)[];

const needs = fc.record({ G: fc.integer({ min: 0, max: 2 }), H: fc.integer({ min: 0, max: 1 }), local: fc.boolean() });
const workers = fc.array(fc.array(needs, { minLength: INSTANCES, maxLength: INSTANCES }), {
  minLength: 1,
  maxLength: 4,
});
const action = fc.record({
  do: fc.constantFrom('stage', 'stage', 'end', 'again', 'unstage', 'call', 'call', 'lost answer', 'die'),
  worker: fc.nat(3),
  instance: fc.nat(INSTANCES - 1),
});

interface SimMember {
  readonly limiter: RateLimiter;
  readonly staged: Set<number>;
  readonly running: Set<number>;
  dead: boolean;
}

function member(instances: readonly { readonly G: number; readonly H: number; readonly local: boolean }[]): SimMember {
  const limits = [
    ...NAMES.map((name) => ({ name, count: THERE_IS[name], device: undefined })),
    { name: 'L', count: 1, device: undefined },
  ];
  const limiter = createRateLimiter(limits);
  limiter.add(
    instances.map(({ local, ...global }, key) => ({
      key,
      priority: 1,
      device: 0,
      resources: [
        ...NAMES.filter((name) => global[name] > 0).map((name) => ({ name, count: global[name], global: true })),
        ...(local ? [{ name: 'L', count: 1, global: false }] : []),
      ],
    })),
  );
  return { limiter, staged: new Set(), running: new Set(), dead: false };
}

test('property: never more is out than there is, and every execution that waits has its turn', () => {
  fc.assert(
    fc.property(workers, fc.array(action, { maxLength: 200 }), (given, script) => {
      const members = given.map(member);
      let kept: KeptClaims = { claims: new Map(), tickets: 0 };

      const run = (one: SimMember, keys: readonly number[]) => {
        for (const key of keys) {
          expect(one.staged.delete(key)).toBe(true);
          one.running.add(key);
        }
        for (const name of NAMES) {
          const living = members.filter(({ dead }) => !dead);
          const out = living.reduce((sum, { limiter }) => sum + (limiter.shared.held.get(name) ?? 0), 0);
          expect(out).toBeLessThanOrEqual(THERE_IS[name]);
        }
      };
      const step = (one: SimMember, type: 'staged' | 'unstaged' | 'ended', instance: number, again = false) =>
        run(one, one.limiter.step(type === 'ended' ? { type, instance, staged: again } : { type, instance }));
      const call = (index: number, heard: boolean) => {
        const one = members[index];
        if (one === undefined || one.dead) return;
        const told = one.limiter.shared;
        const { granted, wake: _, ...next } = takeClaim(kept, `wk-${index}`, told, true);
        kept = next;
        if (granted && heard) run(one, one.limiter.step({ type: 'granted', wish: told.wish }));
      };
      const act = (what: string, index: number, instance: number) => {
        const one = members[index];
        if (one === undefined || one.dead) return;
        if (what === 'stage' && !one.running.has(instance) && !one.staged.has(instance)) {
          one.staged.add(instance);
          step(one, 'staged', instance);
        } else if ((what === 'end' || what === 'again') && one.running.delete(instance)) {
          if (what === 'again') one.staged.add(instance);
          step(one, 'ended', instance, what === 'again');
        } else if (what === 'unstage' && one.staged.delete(instance)) step(one, 'unstaged', instance);
        else if (what === 'call') call(index, true);
        else if (what === 'lost answer') call(index, false);
        else if (what === 'die' && members.filter(({ dead }) => !dead).length > 1) {
          one.dead = true;
          // Its registration has ended.
          kept = { ...kept, claims: new Map([...kept.claims].filter(([id]) => id !== `wk-${index}`)) };
        }
      };

      for (const { do: what, worker, instance } of script) act(what, worker % members.length, instance);
      const isBusy = () => members.some(({ dead, staged, running }) => !dead && staged.size + running.size > 0);
      for (let round = 0; isBusy() && round < 4 * INSTANCES * members.length; round++) {
        for (const index of members.keys()) call(index, true);
        for (const [index, { running }] of members.entries()) for (const key of [...running]) act('end', index, key);
      }
      expect(isBusy()).toBe(false);
    }),
    { numRuns: 1_000 },
  );
});

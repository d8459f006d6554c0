import { expect, test } from 'vitest';
import { type KeptClaims, takeClaim } from './resource-claims.ts';
import type { ResourceClaim } from './shared-resources.ts';

const NONE: KeptClaims = { claims: new Map(), tickets: 0 };
const counts = (of: Readonly<Record<string, number>>) => new Map(Object.entries(of));
const claim = (
  wish: number,
  wanted: Readonly<Record<string, number>>,
  held: Readonly<Record<string, number>> = {},
): ResourceClaim => ({
  limits: counts({ G: 1 }),
  held: counts(held),
  wanted: counts(wanted),
  wish,
});

/** Takes claims one after the other; gives the last outcome. */
function after(...calls: readonly (readonly [worker: string, claim: ResourceClaim | undefined])[]) {
  let kept = { ...NONE, granted: false, wake: [] as readonly string[] };
  for (const [worker, told] of calls) kept = { ...takeClaim(kept, worker, told, true) };
  return { granted: kept.granted, wake: kept.wake };
}

test('a grant whose answer was lost is given again, also where others wait by now', () => {
  const asks = ['a', claim(1, { G: 1 })] as const;
  expect(after(asks, ['b', claim(1, { G: 1 })], asks)).toEqual({ granted: true, wake: [] });
});

test('a wish keeps its place however often it is told, another one takes a new place', () => {
  const holds = ['a', claim(1, {}, { G: 1 })] as const;
  const [b, c] = [
    ['b', claim(1, { G: 1 })],
    ['c', claim(1, { G: 1 })],
  ] as const;
  expect(after(holds, b, c, b, c, b, ['a', undefined])).toEqual({ granted: false, wake: ['b'] });
  expect(after(holds, b, c, ['b', claim(2, { G: 1 })], ['a', undefined])).toEqual({ granted: false, wake: ['c'] });
});

test('what a worker no longer says is not held: a grant that it did not take is free', () => {
  expect(after(['a', claim(1, { G: 1 })], ['b', claim(1, { G: 1 })], ['a', claim(1, {})])).toEqual({
    granted: false,
    wake: ['b'],
  });
});

test('a wish that could be granted keeps what it needs until its worker calls', () => {
  const waits = ['b', claim(1, { G: 1 })] as const;
  expect(after(['a', claim(1, {}, { G: 1 })], waits, ['a', claim(1, {})], ['c', claim(1, { G: 1 })])).toEqual({
    granted: false,
    wake: ['b'],
  });
});

test('nothing is granted while that is not allowed, and its place is kept', () => {
  const first = takeClaim(NONE, 'a', claim(1, { G: 1 }), false);
  expect([first.granted, first.wake]).toEqual([false, []]);
  expect(takeClaim(first, 'b', claim(1, { G: 1 }), true)).toMatchObject({ granted: false, wake: ['a'] });
});

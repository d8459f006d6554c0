import type { InstanceDescription } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { createInstancePlaces } from './instance-places.ts';

const instance = (index: number, given: Partial<InstanceDescription> = {}): InstanceDescription => ({
  index,
  name: `m_${index}`,
  ready: true,
  passive: false,
  batches: [],
  ...given,
});

/** Free places that were given away, and instances taken back, in order. */
function recorded(depth = 1) {
  const events: string[] = [];
  const places = createInstancePlaces({
    depth: () => depth,
    free: (key) => events.push(`free ${key}`),
    lost: (key) => events.push(`lost ${key}`),
    draining: (key) => events.push(`draining ${key}`),
  });
  const describe = (...instances: InstanceDescription[]) => places.describe('w', instances, () => false, false);
  return { places, events, describe };
}

test.each<[string, InstanceDescription[], string[]]>([
  ['each that is ready is given work', [instance(0), instance(1)], ['free w/0', 'free w/1']],
  ['passive ones never are', [instance(0, { passive: true }), instance(1)], ['free w/1']],
  ['those that load are not yet', [instance(0, { ready: false }), instance(1)], ['free w/1']],
])('of the instances of a worker %s', (_rule, instances, expected) => {
  const { describe, events } = recorded();
  describe(...instances);
  expect(events).toEqual(expected);
});

test('a passive instance gets no work either after another one was started again', () => {
  const { describe, events } = recorded();
  const passive = instance(0, { passive: true });
  describe(passive, instance(1));
  describe(passive, instance(1, { ready: false }));
  describe(passive, instance(1));
  expect(events).toEqual(['free w/1', 'lost w/1', 'free w/1']);
});

test('an instance that is not there does not drain', () => {
  const { places, describe, events } = recorded();
  describe(instance(0));
  places.take('w/0');
  places.withdraw('w');
  places.drain('w');
  expect(events).toEqual(['free w/0', 'lost w/0']);
});

test('R38: a worker that drains keeps its places, and its instances are new once it is there again', () => {
  const { places, describe, events } = recorded();
  describe(instance(0));
  places.drain('w');
  places.describe('w', [instance(0)], () => false, true);
  expect(events.splice(0)).toEqual(['free w/0', 'draining w/0']);
  describe(instance(0));
  expect(events).toEqual(['lost w/0', 'free w/0']);
});

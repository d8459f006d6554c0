import { describe, expect, test } from 'vitest';
import { availableStock, type NeededResource, neededStock } from './rate-resources.ts';

const local = (name: string, count: number): NeededResource => ({ name, count, global: false });
const shared = (name: string, count: number): NeededResource => ({ name, count, global: true });
const on = (device: number, ...resources: NeededResource[]) => ({ device, resources });
const limit = (name: string, count: number, device?: number) => ({ name, count, device });

function stockOf(...given: Parameters<typeof availableStock>) {
  const available = availableStock(...given);
  if (!available.ok) return available.error.message;
  const { devices, shared: all } = available.stock;
  return {
    ...Object.fromEntries([...devices].map(([device, counts]) => [device, Object.fromEntries(counts)])),
    ...(all.size === 0 ? {} : { shared: Object.fromEntries(all) }),
  };
}

describe('how much there is of a resource', () => {
  test("without limits as much as the greediest instance needs: the documentation's example", () => {
    const users = [
      on(0, local('R1', 4), local('R2', 4)),
      on(0, local('R2', 5), local('R3', 10), local('R4', 5)),
      on(0, local('R1', 1), local('R3', 7), local('R4', 2)),
    ];
    expect(stockOf(users, [])).toEqual({ 0: { R1: 4, R2: 5, R3: 10, R4: 5 } });
  });

  test("with limits what these say: the documentation's example", () => {
    const users = [on(0, local('R1', 1), local('R2', 1)), on(1, local('R1', 1), local('R2', 1), shared('R3', 1))];
    const limits = [limit('R1', 10), limit('R2', 5, 0), limit('R2', 8, 1), limit('R3', 2)];
    expect(stockOf(users, limits)).toEqual({ 0: { R1: 10, R2: 5 }, 1: { R1: 10, R2: 8 }, shared: { R3: 2 } });
  });

  test.each([
    [
      'is what each device has: the greediest there',
      [on(0, local('R', 1)), on(1, local('R', 3))],
      [],
      { 0: { R: 1 }, 1: { R: 3 } },
    ],
    [
      'of a name that a config lists twice is its last count',
      [on(0, local('R', 4), local('R', 2))],
      [],
      { 0: { R: 2 } },
    ],
    ['given twice is the smaller', [on(0, local('R', 1))], [limit('R', 7), limit('R', 3)], { 0: { R: 3 } }],
    [
      'given for a device and for all is the greater',
      [on(0, local('R', 1))],
      [limit('R', 3, 0), limit('R', 7)],
      { 0: { R: 7 } },
    ],
    [
      'that is global: the device of a limit does not matter',
      [on(0, shared('R', 1))],
      [limit('R', 3, 5), limit('R', 2, 1)],
      { 0: {}, shared: { R: 3 } },
    ],
    ['given in another case is given', [on(0, local('Memory', 1))], [limit('MEMORY', 3)], { 0: { Memory: 3 } }],
    ['of configs is told apart by case', [on(0, local('R', 1)), on(0, local('r', 2))], [], { 0: { R: 1, r: 2 } }],
    [
      'given for another device only is nothing',
      [on(0, local('R', 1))],
      [limit('R', 3, 1)],
      'Resource count for "R" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 1',
    ],
    [
      'not given while another is is nothing',
      [on(0, local('R', 1))],
      [limit('S', 3)],
      'Resource count for "R" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 1',
    ],
    [
      'less than an instance needs is refused',
      [on(0, local('R', 4))],
      [limit('R', 1)],
      'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 4',
    ],
    [
      'that is global and less than needed is refused',
      [on(0, shared('R', 4))],
      [limit('R', 1)],
      'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 4',
    ],
    [
      'of one instance both global and of its device is refused',
      [on(0, local('R', 1), shared('R', 1))],
      [],
      'Resource "R" is present as both global and device-specific resource in the model configuration.',
    ],
    [
      'of two instances likewise',
      [on(0, local('R', 1)), on(1, shared('R', 1))],
      [limit('R', 2)],
      'Resource "R" is present as both global and device-specific resource in the model configuration.',
    ],
  ] as const)('%s', (_, users, limits, expected) => {
    expect(stockOf(users, limits)).toEqual(expected);
  });
});

test('what an instance needs of its device and of all', () => {
  const needed = neededStock(on(1, local('A', 1), shared('B', 2)));
  expect([Object.fromEntries(needed.local), Object.fromEntries(needed.shared)]).toEqual([{ A: 1 }, { B: 2 }]);
});

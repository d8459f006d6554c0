import { describe, expect, test } from 'vitest';
import {
  compareReports,
  median,
  medianRange,
  type ReportCell,
  spread,
  summary,
  type Turn,
  turnOrder,
} from './statistics.mjs';

const turn = (more: Partial<Turn> = {}): Turn => ({
  p50_ms: 1,
  p99_ms: 2,
  rps: 100,
  other_cpu: 0,
  errors: 0,
  checked: 3,
  disturbed: false,
  repeated: 0,
  cpu_us: { serve: 10 },
  ...more,
});

test.each([
  ['odd', [3, 1, 2], 2],
  ['even: the mean of the middle two', [4, 1, 2, 3], 2.5],
  ['numbers and not texts are sorted', [9, 10, 11], 10],
])('median, %s', (_, values, expected) => {
  expect(median(values)).toBe(expected);
});

test('spread', () => {
  expect(spread([5, 1, 3])).toEqual({ median: 3, min: 1, max: 5 });
});

const upTo = (count: number) => Array.from({ length: count }, (_, index) => count - index);

// Of n values the k-th from each end: the largest k at which 2 P(fewer than k of n fair coins) is at most 5 %.
test.each([
  [6, 1, 6],
  [8, 1, 8],
  [9, 2, 8],
  [10, 2, 9],
  [20, 6, 15],
])('medianRange of %i values', (count, min, max) => {
  expect(medianRange(upTo(count))).toEqual({ min, max });
});

test('medianRange of five values is not told: their range is sure by 94 %', () => {
  expect(medianRange(upTo(5))).toBeUndefined();
});

test('turnOrder of two: each goes first as often as the other', () => {
  const orders = [0, 1, 2, 3].map((turn) => turnOrder(2, turn));
  expect(orders).toEqual([
    [0, 1],
    [1, 0],
    [1, 0],
    [0, 1],
  ]);
});

test('turnOrder of three has all six orders', () => {
  const orders = new Set([0, 1, 2, 3, 4, 5].map((turn) => turnOrder(3, turn).join('')));
  expect([...orders].toSorted()).toEqual(['012', '021', '102', '120', '201', '210']);
});

describe('summary', () => {
  test('medians of figures, sums of counts', () => {
    const of = summary([
      turn({ rps: 90, disturbed: true, repeated: 2 }),
      turn({ rps: 130, errors: 1 }),
      turn({ rps: 100, cpu_us: { serve: 12, redis: 4 } }),
    ]);
    expect(of.rps).toEqual({ median: 100, min: 90, max: 130 });
    expect(of).toMatchObject({ errors: 1, checked: 9, disturbed: 1, repeated: 2 });
    expect(of.cpu_us).toEqual({ total: 10, serve: 10, redis: 0 });
    expect(of.commands).toBeUndefined();
  });

  test('commands where there are some', () => {
    const commands = (called: number) => ({ all: 2 * called, called, by_name: { blmpop: called } });
    const of = summary([1, 3, 2].map((called) => turn({ commands: commands(called) })));
    expect(of.commands).toEqual({ all: 4, called: 2, by_name: { blmpop: 2 } });
  });
});

describe('compareReports', () => {
  const cell = (rps: Readonly<Record<string, number>>, more: Partial<ReportCell> = {}): ReportCell => ({
    row: 'add_sub',
    title: 'add_sub',
    jobs: false,
    encoding: 'binary',
    concurrency: 1,
    columns: Object.fromEntries(
      Object.entries(rps).map(([name, value]) => [name, { summary: summary([turn({ rps: value })]), turns: [] }]),
    ),
    ...more,
  });
  const rpsOf = (first: ReportCell, second: ReportCell) =>
    compareReports({ cells: [first] }, { cells: [second] }).filter(({ figure }) => figure === 'rps');

  test('a machine of half the speed changes no ratio', () => {
    expect(rpsOf(cell({ one: 100, triton: 50 }), cell({ one: 50, triton: 25 }))).toEqual([
      { cell: 'add_sub binary c=1', figure: 'rps', of: 'one', to: 'triton', first: 2, second: 2, stable: true },
    ]);
  });

  test.each([
    ['20 % more', 120, true],
    ['a little more than 20 % more', 121, false],
    ['20 % more the other way round', 100 / 1.19, true],
    ['more than 20 % the other way round', 100 / 1.21, false],
  ])('%s', (_, second, stable) => {
    const found = rpsOf(cell({ one: 100, triton: 100 }), cell({ one: second, triton: 100 }));
    expect(found.map((each) => each.stable)).toEqual([stable]);
  });

  test('each pair of columns once, in both figures', () => {
    const found = compareReports({ cells: [cell({ a: 1, b: 1, c: 1 })] }, { cells: [cell({ a: 1, b: 1, c: 1 })] });
    expect(found.map(({ figure, of, to }) => `${figure} ${of}/${to}`)).toEqual([
      ...['p50_ms a/b', 'p50_ms a/c', 'p50_ms b/c'],
      ...['rps a/b', 'rps a/c', 'rps b/c'],
    ]);
  });

  test('what one of them lacks is not compared', () => {
    expect(rpsOf(cell({ one: 1, triton: 1 }), cell({ one: 1 }))).toEqual([]);
    expect(rpsOf(cell({ one: 1, triton: 1 }), cell({ one: 1, triton: 1 }, { concurrency: 8 }))).toEqual([]);
  });
});

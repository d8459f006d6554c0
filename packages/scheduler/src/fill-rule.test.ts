import { describe, expect, test } from 'vitest';
import { createFillRule, type FillRule } from './fill-rule.ts';

const FULL = 8;

/** Batches of one row each, filled as the rule says, on a model that takes that long; how large each was. */
function play(rule: FillRule, batches: number, runUs: (rows: number) => number, own = 1): readonly number[] {
  return Array.from({ length: batches }, () => {
    const rows = rule.rowsMax(own, FULL);
    rule.ran(rows, runUs(rows));
    return rows;
  });
}
const filled = (sizes: readonly number[], own = 1) => sizes.filter((rows) => rows > own).length / sizes.length;

describe('a batch', () => {
  test.each<readonly [string, (rows: number) => number, number]>([
    ['takes as long whatever its rows', () => 5_000, FULL],
    ['takes a little longer for each row', (rows) => 5_000 + 50 * rows, FULL],
    ['takes less for more rows', (rows) => 5_000 - 100 * rows, FULL],
    ['takes a tenth more for three rows', (rows) => 9_000 + 300 * rows, 4],
    ['takes a fifth more for each row', (rows) => 8_000 + 2_000 * rows, 1],
    ['takes as long as its rows', (rows) => 2_000 * rows, 1],
  ])('is filled as far as it costs at most a tenth, of a model that %s', (_model, runUs, rows) => {
    const rule = createFillRule();
    play(rule, 40, runUs);
    const sizes = play(rule, 320, runUs);
    // But for those by which a change is seen.
    expect(sizes.filter((size) => size === rows).length / sizes.length).toBeGreaterThan(0.95);
  });

  test('is filled though times differ from one to the next', () => {
    let turn = 0;
    const sizes = play(createFillRule(), 2_000, () => 4_500 + ((++turn * 7_919) % 1_000));
    expect(filled(sizes)).toBeGreaterThan(0.5);
  });

  test('is filled again where the time no longer grows with the rows, and the other way round', () => {
    const rule = createFillRule();
    const rows = 2_000;
    expect(filled(play(rule, 500, (size) => rows * size))).toBeLessThan(0.05);
    play(rule, 2_000, () => 5_000);
    expect(filled(play(rule, 500, () => 5_000))).toBeGreaterThan(0.4);
    play(rule, 500, (size) => rows * size);
    expect(filled(play(rule, 500, (size) => rows * size))).toBeLessThan(0.05);
  });

  test('is judged by more than executions that took no time that can be measured', () => {
    const rule = createFillRule();
    for (let run = 0; run < 3; run++) rule.ran(1, 0);
    play(rule, 500, (rows) => 2_000 * rows);
    expect(filled(play(rule, 500, (rows) => 2_000 * rows))).toBeLessThan(0.05);
  });

  test('is judged by more than a first execution that takes very long', () => {
    const rule = createFillRule();
    rule.ran(1, 900_000);
    play(rule, 100, (rows) => 2_000 * rows);
    expect(filled(play(rule, 60, (rows) => 2_000 * rows))).toBeLessThan(0.05);
  });

  test('is never filled past what is full, nor made smaller', () => {
    const rule = createFillRule();
    play(rule, 50, (rows) => 2_000 * rows, 3);
    for (const rows of play(rule, 200, (size) => 2_000 * size, FULL)) expect(rows).toBe(FULL);
  });
});

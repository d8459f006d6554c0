import { beforeAll, expect, test } from 'vitest';
import { runSequenceRounds, type SequenceRoundsResult } from './sequence-rounds.mjs';

// What kills.test.ts does not do to sequences; `node test/faults/sequence-run.mjs` kills for a minute.
const LIMIT_MS = 180_000;

let result: SequenceRoundsResult;

beforeAll(async () => {
  result = await runSequenceRounds({ kills: 0, everyMs: 0, rounds: ['drain'] });
}, LIMIT_MS);

test('a worker is asked to stop: its sequences end, others begin elsewhere', () => {
  const [round] = result.results;
  expect(round?.problems).toEqual([]);
  expect(round?.right).toBeGreaterThan(0);
});

test('nothing is held in the end, and all stop in order', () => {
  expect(result.left).toEqual([]);
  for (const { code, output } of result.endings) expect(code, output).toBe(0);
});

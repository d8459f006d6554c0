import { beforeAll, expect, test } from 'vitest';
import { runSequenceRounds, type SequenceRoundsResult } from './sequence-rounds.mjs';

// A short form; `node test/faults/sequence-run.mjs` kills for a minute.
const KILLS = 1;
const EVERY_MS = 3_500;
const LIMIT_MS = 180_000;

let result: SequenceRoundsResult;

beforeAll(async () => {
  result = await runSequenceRounds({ kills: KILLS, everyMs: EVERY_MS });
}, LIMIT_MS);

test.each([
  ['coordinator', 'the owner is killed: every sequence is right and complete'],
  ['worker', 'a worker is killed: its sequences are told to be lost, the others are right'],
  ['drain', 'a worker is asked to stop: its sequences end, others begin elsewhere'],
])('%s: %s', (name) => {
  const round = result.results.find((one) => one.name === name);
  expect(round?.problems).toEqual([]);
  expect(round?.right).toBeGreaterThan(0);
});

test('nothing is held in the end, and all stop in order', () => {
  expect(result.left).toEqual([]);
  for (const { code, output } of result.endings) expect(code, output).toBe(0);
});

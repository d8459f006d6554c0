import type { ErrorInfo } from '@nereid/protocol';
import { createLog, virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { EXECUTION_TIMEOUT, startCarrier } from './carrier.ts';
import { fixtureBatch, fixtureLine, noCaller } from './fixture-line.ts';

const TIMEOUT_MS = 100;

/** A carrier whose line goes nowhere, with what became of its batches. */
function carried() {
  const clock = virtualClock();
  const line = fixtureLine();
  const settled: number[] = [];
  const endings: { why: ErrorInfo; lost: number[]; running: number | undefined }[] = [];
  const carrier = startCarrier({
    setup: line.setup,
    open: line.open,
    clock,
    log: createLog({ level: 'silent' }),
    executionTimeoutMs: TIMEOUT_MS,
    caller: noCaller,
    loaded() {},
    returned() {},
    ended: (why, lost, running) => endings.push({ why, lost: lost.map(({ batch }) => batch), running: running?.batch }),
  });
  return {
    clock,
    line,
    settled,
    endings,
    post: (...numbers: number[]) => {
      for (const number of numbers) carrier.post(fixtureBatch(number, 1, () => settled.push(number)));
    },
  };
}

test('executions are let be as long as each keeps its time, though together they take longer', () => {
  const carrier = carried();
  carrier.post(1, 2, 3);
  for (const sequence of [1, 2, 3]) {
    carrier.clock.advanceUs(TIMEOUT_MS * 1000 - 1);
    carrier.line.answer(sequence);
  }
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  expect(carrier.settled).toEqual([1, 2, 3]);
  expect(carrier.line.terminations).toBe(0);
  expect(carrier.clock.liveTimers).toBe(0);
});

test('one that takes longer ends its carrier, and is the one to blame', () => {
  const carrier = carried();
  carrier.post(1, 2, 3);
  carrier.line.answer(1);
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  expect(carrier.line.terminations).toBe(1);
  carrier.line.ended();
  expect(carrier.endings).toEqual([
    { why: expect.objectContaining({ reason: EXECUTION_TIMEOUT }), lost: [2, 3], running: 2 },
  ]);
  expect(carrier.clock.liveTimers).toBe(0);
});

test('one that comes back before its carrier has ended is answered, and nobody is to blame', () => {
  const carrier = carried();
  carrier.post(1, 2);
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  carrier.line.answer(1);
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  carrier.line.ended();
  expect(carrier.settled).toEqual([1]);
  expect(carrier.line.terminations).toBe(1);
  expect(carrier.endings).toMatchObject([{ lost: [2], running: undefined }]);
});

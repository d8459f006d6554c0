import type { ModelSignature } from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import { createLog, virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { EXECUTION_TIMEOUT, startCarrier } from './carrier.ts';
import type { InstanceBatch } from './instance-batch.ts';
import type { LineEvents } from './instance-line.ts';
import type { ThreadSetup } from './thread-messages.ts';
import { int32, request } from './worker-harness.ts';

const TIMEOUT_MS = 100;
const signature: ModelSignature = {
  name: 'm',
  maxBatchSize: 0,
  inputs: [{ name: 'X', datatype: 'INT32', dims: [1], reshape: null, optional: false, ragged: false }],
  outputs: [],
  batchInputs: [],
  batchOutputs: [],
  decoupled: false,
};

/** A carrier whose line goes nowhere; `answer` is what comes by it. */
function carried() {
  const clock = virtualClock();
  const settled: number[] = [];
  const endings: { why: ErrorInfo; lost: number[]; running: number | undefined }[] = [];
  let line: LineEvents | undefined;
  let terminations = 0;
  const carrier = startCarrier({
    setup: { signature, instanceName: 'm_0' } as ThreadSetup,
    open(_setup, events) {
      line = events;
      return { post() {}, terminate: () => void terminations++, giveUp() {} };
    },
    clock,
    log: createLog({ level: 'silent' }),
    executionTimeoutMs: TIMEOUT_MS,
    loaded() {},
    returned() {},
    ended: (why, lost, running) => endings.push({ why, lost: lost.map(({ batch }) => batch), running: running?.batch }),
  });
  const batch = (number: number): InstanceBatch => ({
    batch: number,
    requests: [request([int32('X', [1], [number])])],
    receivedNs: 0,
    cancelled: undefined,
    settle: () => settled.push(number),
  });
  return {
    clock,
    settled,
    endings,
    post: (...numbers: number[]) => {
      for (const number of numbers) carrier.post(batch(number));
    },
    answer(sequence: number) {
      const timing = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
      const outcomes = [{ ok: true, parameters: {}, outputs: [] }] as const;
      line?.take({ kind: 'outcomes', sequence, executed: true, timing, outcomes });
    },
    end: () => line?.ended('it ended'),
    get terminations() {
      return terminations;
    },
  };
}

test('executions are let be as long as each keeps its time, though together they take longer', () => {
  const carrier = carried();
  carrier.post(1, 2, 3);
  for (const sequence of [1, 2, 3]) {
    carrier.clock.advanceUs(TIMEOUT_MS * 1000 - 1);
    carrier.answer(sequence);
  }
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  expect(carrier.settled).toEqual([1, 2, 3]);
  expect(carrier.terminations).toBe(0);
  expect(carrier.clock.liveTimers).toBe(0);
});

test('one that takes longer ends its carrier, and is the one to blame', () => {
  const carrier = carried();
  carrier.post(1, 2, 3);
  carrier.answer(1);
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  expect(carrier.terminations).toBe(1);
  carrier.end();
  expect(carrier.endings).toEqual([
    { why: expect.objectContaining({ reason: EXECUTION_TIMEOUT }), lost: [2, 3], running: 2 },
  ]);
  expect(carrier.clock.liveTimers).toBe(0);
});

test('one that comes back before its carrier has ended is answered, and nobody is to blame', () => {
  const carrier = carried();
  carrier.post(1, 2);
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  carrier.answer(1);
  carrier.clock.advanceUs(TIMEOUT_MS * 1000);
  carrier.end();
  expect(carrier.settled).toEqual([1]);
  expect(carrier.terminations).toBe(1);
  expect(carrier.endings).toMatchObject([{ lost: [2], running: undefined }]);
});

import type { ModelSignature } from '@nereid/config';
import { createLog, virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createInstance, type InstanceLimits } from './instance.ts';
import type { InstanceBatch } from './instance-batch.ts';
import type { LineEvents } from './instance-line.ts';
import type { ThreadSetup } from './thread-messages.ts';
import { int32, request } from './worker-harness.ts';

const PAUSE_MS = 10;
const LIMITS: InstanceLimits = {
  instance_start_timeout_ms: 10_000,
  instance_restart_attempts_max: 5,
  instance_restart_backoff_min_ms: PAUSE_MS,
  instance_restart_backoff_max_ms: PAUSE_MS,
  instances_per_model_max: 1,
};
const signature: ModelSignature = {
  name: 'm',
  maxBatchSize: 4,
  inputs: [{ name: 'X', datatype: 'INT32', dims: [1], reshape: null, optional: false, ragged: false }],
  outputs: [],
  batchInputs: [],
  batchOutputs: [],
  decoupled: false,
};

/** An instance over lines that go nowhere: `posted` are the requests of each batch that the present one got. */
function carried() {
  const clock = virtualClock();
  const settled: string[] = [];
  let line: LineEvents | undefined;
  let posted = 0;
  let stops = 0;
  const instance = createInstance({
    index: 0,
    passive: false,
    setup: { signature, instanceName: 'm_0', config: { name: 'm' } } as ThreadSetup,
    open(_setup, events) {
      line = events;
      posted = 0;
      return {
        post(order) {
          if (!('kind' in order)) posted++;
          else if (order.kind === 'stop') stops++;
        },
        terminate() {},
        giveUp() {},
      };
    },
    clock,
    log: createLog({ level: 'silent' }),
    limits: LIMITS,
    executionTimeoutMs: undefined,
    changed() {},
  });
  return {
    instance,
    settled,
    get posted() {
      return posted;
    },
    get stops() {
      return stops;
    },
    batch(number: number, rows: number): InstanceBatch {
      return {
        batch: number,
        requests: Array.from({ length: rows }, () => request([int32('X', [1, 1], [number])])),
        receivedNs: 0,
        cancelled: undefined,
        settle: ({ outcomes }) =>
          settled.push(`${number}: ${outcomes.map((each) => (each.ok ? 'ok' : each.error.code)).join(' ')}`),
      };
    },
    loaded: () => line?.take({ kind: 'loaded', needsRequests: false }),
    answer(sequence: number) {
      const timing = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
      const outcomes = [{ ok: true, parameters: {}, outputs: [] }] as const;
      line?.take({ kind: 'outcomes', sequence, executed: true, timing, outcomes });
    },
    dies() {
      line?.ended('it was killed');
      clock.advanceUs(PAUSE_MS * 1000);
      line?.take({ kind: 'loaded', needsRequests: false });
    },
  };
}

test('a request that is tried by itself is alone with its carrier, so the second death is its own', () => {
  const on = carried();
  const { instance, settled, batch } = on;
  void instance.start();
  on.loaded();
  instance.execute(batch(1, 3));
  instance.execute(batch(2, 1));
  on.dies();
  // What comes meanwhile stands behind them.
  instance.execute(batch(3, 1));
  expect(on.posted).toBe(1);
  on.answer(1);
  expect(on.posted).toBe(2);
  on.dies();
  expect([on.posted, settled]).toEqual([1, []]);
  on.answer(1);
  expect(settled).toEqual(['1: ok POISONED ok']);
  expect(on.posted).toBe(3);
  on.answer(2);
  on.answer(3);
  expect(settled.slice(1)).toEqual(['2: ok', '3: ok']);
});

test('a stop lets those that wait to be tried run, and then the carrier end', () => {
  const on = carried();
  const { instance, settled, batch } = on;
  void instance.start();
  on.loaded();
  instance.execute(batch(1, 3));
  on.dies();
  void instance.stop();
  on.answer(1);
  on.answer(2);
  expect([on.stops, settled]).toEqual([0, []]);
  on.answer(3);
  expect([on.stops, settled]).toEqual([1, ['1: ok ok ok']]);
});

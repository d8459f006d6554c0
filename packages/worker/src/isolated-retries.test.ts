import { createLog, virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { fixtureBatch, fixtureLine, noCaller } from './fixture-line.ts';
import { createInstance, type InstanceLimits } from './instance.ts';

const PAUSE_MS = 10;
const LIMITS: InstanceLimits = {
  instance_start_timeout_ms: 10_000,
  instance_restart_attempts_max: 5,
  instance_restart_backoff_min_ms: PAUSE_MS,
  instance_restart_backoff_max_ms: PAUSE_MS,
  instances_per_model_max: 1,
};

/** An instance that is loaded, over lines that go nowhere, with what became of each batch. */
function carried() {
  const clock = virtualClock();
  const line = fixtureLine();
  const settled: string[] = [];
  const instance = createInstance({
    index: 0,
    passive: false,
    setup: line.setup,
    open: line.open,
    clock,
    log: createLog({ level: 'silent' }),
    limits: LIMITS,
    executionTimeoutMs: undefined,
    caller: noCaller,
    changed() {},
    stateLost() {},
  });
  void instance.start();
  line.loaded();
  return {
    line,
    instance,
    settled,
    execute(number: number, requests: number) {
      const batch = fixtureBatch(number, requests, ({ outcomes }) => {
        settled.push(`${number}: ${outcomes.map((each) => (each.ok ? 'ok' : each.error.code)).join(' ')}`);
      });
      instance.execute(batch);
    },
    dies() {
      line.ended();
      clock.advanceUs(PAUSE_MS * 1000);
      line.loaded();
    },
  };
}

test('a request that is tried by itself is alone with its carrier, so the second death is its own', () => {
  const { line, settled, execute, dies } = carried();
  execute(1, 3);
  execute(2, 1);
  dies();
  // What comes meanwhile stands behind them.
  execute(3, 1);
  expect(line.posted).toBe(1);
  line.answer(1);
  expect(line.posted).toBe(2);
  dies();
  expect([line.posted, settled]).toEqual([1, []]);
  line.answer(1);
  expect(settled).toEqual(['1: ok POISONED ok']);
  expect(line.posted).toBe(3);
  line.answer(2);
  line.answer(3);
  expect(settled.slice(1)).toEqual(['2: ok', '3: ok']);
});

test('a stop lets those that wait to be tried run, and then the carrier end', () => {
  const { line, instance, settled, execute, dies } = carried();
  execute(1, 3);
  dies();
  void instance.stop();
  line.answer(1);
  line.answer(2);
  expect([line.stops, settled]).toEqual([0, []]);
  line.answer(3);
  expect([line.stops, settled]).toEqual([1, ['1: ok ok ok']]);
});

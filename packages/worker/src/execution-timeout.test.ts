import { createLog, type VirtualClock, virtualClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

const TIMEOUT_US = 800_000;
/** Longer than the pause before a start. */
const PAUSE_US = 60_000_000;
let harness: Harness;
let clock: VirtualClock;

/** Time goes on where a model says that it is stuck, and where an instance is down. */
beforeEach(async () => {
  clock = virtualClock();
  const write = (text: string) => {
    if (JSON.parse(text).msg === 'stuck') clock.advanceUs(TIMEOUT_US);
  };
  harness = await createHarness({ clock, log: createLog({ level: 'info', destination: { write } }) });
  const startAgain = async () => {
    await harness.described('m', ({ versions }) => versions[0]?.state === 'READY' && !versions[0].instances[0]?.ready);
    clock.advanceUs(PAUSE_US);
    void startAgain();
  };
  void startAgain();
});
afterEach(async () => {
  expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  expect(clock.liveTimers).toBe(0);
});

const TIMEOUT = 'parameters { key: "nereid.execution_timeout_ms" value { string_value: "800" } }';
const BATCHING = 'max_batch_size: 8';
const LATE = {
  code: 'INTERNAL',
  message: "instance 'm_0' of model 'm' ended: an execution took longer than 800 ms (nereid.execution_timeout_ms)",
  reason: 'execution_timeout',
};
const row = (value: number) => request([int32('X', [1, 1], [value])]);
/** What it logs comes after the results before it, as standard output need not. */
const INITIALIZE = `let log;
export const initialize = ({ context }) => { log = context.log; };
`;
/** 2 spins for ever, 3 waits for ever; a batch with 4 in it does so unless that is alone. */
const STUCK = `${INITIALIZE} export function execute(requests) {
  const values = requests.map(({ inputs }) => inputs.get('X').data[0]);
  const stuck = values.includes(2) || values.includes(3) || (values.includes(4) && values.length > 1);
  if (stuck) log.info('stuck');
  if (values.includes(2)) for (;;);
  if (stuck) return new Promise(() => {});
  return requests.map(({ inputs }) => ({ outputs: { Y: inputs.get('X') } }));
}`;
const endings = (outcomes: readonly Parameters<typeof responseOf>[0][]) =>
  outcomes.map((outcome) =>
    outcome?.ok === true ? int32Values(responseOf(outcome).outputs[0])[0] : errorOf(outcome).reason,
  );

describe('an execution past its time', () => {
  it.each([
    ['that spins', 2],
    ['that waits', 3],
  ])('%s ends with its process, and what waits behind it runs', async (_, value) => {
    await harness.javascript('m', STUCK, `${TIMEOUT} ${BATCHING}`);
    await harness.load('m');
    const stuck = harness.start('m', [row(value)]);
    const behind = harness.start('m', [row(1), row(5)]);
    const { outcomes, done } = await stuck.over;
    expect(errorOf(outcomes[0])).toEqual(LATE);
    expect(executedOf(done)).toEqual([true, 'error']);
    expect(endings((await behind.over).outcomes)).toEqual([1, 5]);
    expect(harness.threads).toEqual([]);
    expect(harness.processes).toHaveLength(2);
  });

  it('has its requests run by themselves, and only those that are late again fail', async () => {
    await harness.javascript('m', STUCK, `${TIMEOUT} ${BATCHING}`);
    await harness.load('m');
    const { outcomes } = await harness.execute('m', [row(1), row(2), row(4)]);
    expect(endings(outcomes)).toEqual([1, 'execution_timeout', 4]);
    expect(harness.processes).toHaveLength(3);
  });

  it('of a decoupled model is the time of all its streams', async () => {
    const source = `${INITIALIZE} async function* answers() {
        yield { outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(7) } } };
        log.info('stuck');
        await new Promise(() => {});
      }
      export const execute = (requests) => requests.map(answers);`;
    await harness.javascript('m', source, `${TIMEOUT} model_transaction_policy { decoupled: true }`);
    await harness.load('m');
    const first = harness.next('response');
    const last = harness.next('response', ({ last: isLast }) => isLast);
    harness.start('m', [request([int32('X', [1], [1])])]);
    expect((await first).outcome.ok).toBe(true);
    expect(errorOf((await last).outcome)).toEqual(LATE);
    // Its stream had begun, so it was not run again.
    expect(harness.processes.length).toBeLessThanOrEqual(2);
  });
});

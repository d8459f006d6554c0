import { describe, expect, test } from 'vitest';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { type ClosedLoop, type LoopBatch, meanBatch, runClosedLoop } from './fixture-closed-loop.ts';
import { queuedRequest } from './fixture-request.ts';
import { DEFAULTS } from './fixture-timeline.ts';
import type { ScheduleEvent } from './schedule.ts';

const RUN_US = 10_000;
/** Batches by then are of a batcher that knows its clients. */
const LEARNT_US = 1_000_000;

function run(loop: Pick<ClosedLoop, 'clients' | 'instances' | 'backUs'>): readonly LoopBatch[] {
  const sent = runClosedLoop(createDynamicScheduler(DEFAULTS), {
    ...loop,
    run_us: RUN_US,
    apart_us: 100,
    untilUs: 2_000_000,
  });
  return sent.filter(({ atUs }) => atUs >= LEARNT_US);
}

const atOnce = (client: number) => 200 + client * 40;

describe('without a delay, batches of clients that ask again at once', () => {
  test.each([
    ['one instance, as many clients as a batch has room for', 8, 1, 8],
    ['two instances, as many clients as both have room for', 16, 2, 7.9],
    ['fewer clients than a batch has room for', 5, 1, 5],
    ['one client', 1, 1, 1],
    ['more clients than there is room for', 20, 1, 8],
  ])('%s', (_what, clients, instances, least) => {
    const sent = run({ clients, instances, backUs: atOnce });
    expect(meanBatch(sent)).toBeGreaterThanOrEqual(least);
  });

  test('go as soon as the last of them is there', () => {
    const held = run({ clients: 5, instances: 1, backUs: atOnce }).map(({ heldUs }) => heldUs);
    expect(Math.max(...held)).toBe(0);
  });
});

test('clients that think before they ask again are not waited for', () => {
  const sent = run({ clients: 3, instances: 3, backUs: (client) => 7_000 + client * 3_100 });
  expect(sent.map(({ requests, heldUs }) => [requests, heldUs])).toEqual(sent.map(() => [1, 0]));
});

describe('a batch that is held for who comes back', () => {
  const answered: ScheduleEvent = { type: 'answered', requests: 4, runUs: RUN_US };
  const free: ScheduleEvent = { type: 'instance-free', instance: 'wk/0' };

  /** A batcher that knows its clients holds a batch of one, until then. */
  function held() {
    const scheduler = createDynamicScheduler(DEFAULTS);
    let asked = 0;
    const step = (event: ScheduleEvent, nowUs: number) => scheduler.step(event, nowUs);
    const arrive = (us: number) =>
      step({ type: 'arrived', request: queuedRequest({ id: `r${asked++}`, arrivedUs: us }) }, us);
    step(free, 0);
    let nowUs = 0;
    for (let round = 0; round < 40; round++) {
      nowUs += 20_000;
      step(answered, nowUs);
      for (let client = 0; client < 4; client++) arrive(nowUs + 10);
      step(free, nowUs + 10);
    }
    nowUs += 20_000;
    step(answered, nowUs);
    step(free, nowUs);
    const untilUs = nowUs + RUN_US / 4;
    expect(arrive(nowUs + 1)).toEqual([{ type: 'wake', atUs: untilUs }]);
    return { step, arrive, untilUs, id: `r${asked - 1}` };
  }

  test('is held no longer though others are answered meanwhile', () => {
    const { step, untilUs, id } = held();
    step(answered, untilUs - 100);
    expect(step({ type: 'time' }, untilUs)).toMatchObject([{ type: 'dispatch', batch: [{ id }] }]);
  });

  test('once it was sent the next one is held anew, also where that waits already', () => {
    const { step, arrive, untilUs } = held();
    expect(step({ type: 'time' }, untilUs)).toMatchObject([{ type: 'dispatch' }]);
    arrive(untilUs + 10);
    step(answered, untilUs + 20);
    expect(step(free, untilUs + 20)).toEqual([{ type: 'wake', atUs: untilUs + 20 + RUN_US / 4 }]);
  });

  test('once nobody is left in it the next one is held anew', () => {
    const { step, arrive, untilUs, id } = held();
    expect(step({ type: 'cancelled', id }, untilUs - 10)).toEqual([]);
    step(answered, untilUs);
    expect(arrive(untilUs + 10)).toEqual([{ type: 'wake', atUs: untilUs + RUN_US / 4 }]);
  });
});

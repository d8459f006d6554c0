import { createLog, virtualClock } from '@nereid/runtime';
import type { Worker } from 'bullmq';
import { expect, test } from 'vitest';
import { createJobTaker } from './jobs-taker.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test('closed while its worker starts, a taker leaves neither worker nor timer', async () => {
  const clock = virtualClock();
  const calls: string[] = [];
  let up = () => {};
  const worker = {
    on() {},
    waitUntilReady: () =>
      new Promise<void>((resolve) => {
        up = resolve;
      }),
    async startStalledCheckTimer() {
      calls.push('stalled check');
    },
    async close() {
      calls.push('close');
    },
  } as unknown as Worker;
  const taker = createJobTaker({
    clock,
    log: createLog({ level: 'silent' }),
    worker: () => worker,
    ready: async () => {},
    queue: 'infer.m',
    lockMs: 1_000,
    options: { by: 'co-1', token: () => 't', room: () => 1, taken: () => true, lost: () => {} },
  });
  await turn();
  const closed = taker.close();
  await turn();
  up();
  await closed;
  expect(calls.at(-1)).toBe('close');
  expect(clock.liveTimers).toBe(0);
});

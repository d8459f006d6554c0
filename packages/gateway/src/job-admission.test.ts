import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createJobAdmission } from './job-admission.ts';

function admission(memory: () => Promise<{ used: number; max: number } | undefined>) {
  const clock = virtualClock();
  let looks = 0;
  const queues = {
    url: 'unix:///r',
    memory: () => {
      looks++;
      return memory();
    },
  };
  const { refusal } = createJobAdmission(queues, clock);
  return { clock, refusal, looks: () => looks };
}

const FULL = { code: 'UNAVAILABLE', reason: 'redis_full' };

test('beyond four fifths of its memory Redis takes no job', async () => {
  let used = 700_000;
  const { clock, refusal } = admission(async () => ({ used, max: 1_000_000 }));
  expect(await refusal(10_000)).toBeUndefined();
  used = 810_000;
  clock.advanceUs(250_000);
  expect(await refusal(0)).toMatchObject({ ...FULL, message: expect.stringContaining('uses 81 % of its maxmemory') });
  used = 100_000;
  clock.advanceUs(250_000);
  expect(await refusal(10_000)).toBeUndefined();
});

test('what was added since the last look counts', async () => {
  const { clock, refusal, looks } = admission(async () => ({ used: 500_000, max: 1_000_000 }));
  expect(await refusal(100_000)).toBeUndefined();
  expect(await refusal(100_000)).toBeUndefined();
  expect(await refusal(100_000)).toMatchObject(FULL);
  expect(looks()).toBe(1);
  clock.advanceUs(250_000);
  expect(await refusal(100_000)).toBeUndefined();
});

test.each([
  ['that has no limit', async () => undefined],
  ['that is away', () => Promise.reject(new Error('away'))],
])('a Redis %s refuses nothing itself', async (_rule, memory) => {
  expect(await admission(memory).refusal(1e12)).toBeUndefined();
});

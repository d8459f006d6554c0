import { createLog, virtualClock } from '@nereid/runtime';
import type { Job } from 'bullmq';
import { expect, test } from 'vitest';
import type { JobTaker, TakeOptions } from './jobs.ts';
import { withFollowUps } from './jobs-follow-ups.ts';

test('of a job that is taken twice in a row the new letter waits until the old one is gone, for the second time too', async () => {
  const calls: string[] = [];
  const gone: (() => void)[] = [];
  let take: TakeOptions['taken'] = () => false;
  const inner = { fail: async () => void calls.push('failed'), putBack: async () => {} } as unknown as JobTaker;
  const make = (options: TakeOptions) => {
    take = options.taken;
    return inner;
  };
  const options: TakeOptions = { by: 'co-1', token: () => 'co-1:1', room: () => 1, taken: () => true, lost: () => {} };
  const taker = withFollowUps(make, options, {
    clock: virtualClock(),
    log: createLog({ level: 'silent' }),
    model: 'm',
    letters: {
      exhume: () => new Promise<void>((resolve) => gone.push(resolve)),
      bury: async () => void calls.push('buried'),
    },
    deliveries: { add: async () => {} } as never,
    read: async () => ({ id: 'A1', opts: {}, attemptsMade: 0 }) as unknown as Job,
  });
  const job = { id: 'A1', data: {}, createdMs: 0, starts: 2 };
  take(job);
  await taker.putBack('A1', 0);
  take({ ...job, starts: 3 });
  gone[0]?.();
  await new Promise((resolve) => setImmediate(resolve));
  const ended = taker.fail('A1', 'INTERNAL: x', false);
  await new Promise((resolve) => setImmediate(resolve));
  expect(calls).toEqual([]);
  gone[1]?.();
  await ended;
  expect(calls).toEqual(['buried', 'failed']);
});

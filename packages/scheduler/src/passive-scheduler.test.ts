import { expect, test } from 'vitest';
import { queuedRequest } from './fixture-request.ts';
import { createPassiveScheduler } from './passive-scheduler.ts';

test('every request is refused at once, and nothing else leads to anything', () => {
  const scheduler = createPassiveScheduler('m');
  const request = queuedRequest({ id: 'a' });
  const [decision, ...others] = scheduler.step({ type: 'arrived', request }, 0);
  expect(decision).toMatchObject({
    type: 'reject',
    request,
    error: { code: 'UNSUPPORTED', message: expect.stringContaining("model 'm' has passive instances only") },
  });
  expect(others).toEqual([]);
  expect(scheduler.step({ type: 'cancelled', id: 'a' }, 1)).toEqual([]);
  expect(scheduler.step({ type: 'time' }, 2)).toEqual([]);
  expect(scheduler.waiting).toBe(0);
});

import type { InferMessage } from '@nereid/protocol';
import { timing } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { type ResendStep, resendStep, resendTimes } from './resend.ts';

describe('R8: what becomes of a request at a look', () => {
  const times = resendTimes(timing(), false);
  const epoch = { number: 5, owner: 'co-1' };
  const message = { epoch } as InferMessage;
  const sent = { message, sentUs: 0, resendMs: 1_000, returned: false, strandedUs: undefined };
  it.each<readonly [string, Partial<typeof sent>, typeof epoch | undefined, number, ResendStep]>([
    ['its wait is not over', {}, epoch, 999, { type: 'wait' }],
    ['its wait is over: the next is twice as long', {}, epoch, 1_000, { type: 'send', epoch, resendMs: 2_000 }],
    ['the wait is bounded', { resendMs: 4_000 }, epoch, 4_000, { type: 'send', epoch, resendMs: 4_000 }],
    [
      'a higher epoch',
      { resendMs: 4_000 },
      { number: 6, owner: 'co-1' },
      1,
      { type: 'send', epoch: { number: 6, owner: 'co-1' }, resendMs: 1_000 },
    ],
    [
      'a lower epoch: the higher was forgotten',
      {},
      { number: 1, owner: 'co-1' },
      1,
      { type: 'send', epoch: { number: 1, owner: 'co-1' }, resendMs: 1_000 },
    ],
    [
      'the same number of another owner',
      {},
      { number: 5, owner: 'co-2' },
      1,
      { type: 'send', epoch: { number: 5, owner: 'co-2' }, resendMs: 1_000 },
    ],
    ['no owner', {}, undefined, 1, { type: 'strand' }],
    ['no owner for long', { strandedUs: 1 } as never, undefined, 5_000, { type: 'strand' }],
    ['no owner for too long', { strandedUs: 1 } as never, undefined, 5_000.001, { type: 'fail' }],
    ['back for too long', { strandedUs: 1, returned: true } as never, epoch, 5_000.001, { type: 'fail' }],
    ['back once, and taken then', { strandedUs: 1, resendMs: 9_000 } as never, epoch, 5_001, { type: 'wait' }],
  ])('%s', (_rule, change, owner, nowMs, expected) => {
    expect(resendStep({ ...sent, ...change }, owner, nowMs * 1000, times)).toEqual(expected);
  });
});

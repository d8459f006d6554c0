import { describe, expect, it } from 'vitest';
import { createInstanceCancels } from './instance-cancels.ts';

const order = (sequence: number, position: number) => ({ kind: 'cancel', sequence, position }) as const;

describe('a cancel', () => {
  it('that comes before its batch is known when the batch begins', () => {
    const cancels = createInstanceCancels();
    cancels.take(order(2, 0));
    cancels.take(order(2, 1));
    const first = cancels.begin(1);
    expect([first.areAll(1), first.isCancelled(0), first.signal(0).aborted]).toEqual([false, false, false]);
    const second = cancels.begin(2);
    expect([second.areAll(2), second.areAll(3)]).toEqual([true, false]);
    expect([second.isCancelled(1), second.isCancelled(2)]).toEqual([true, false]);
    expect([second.signal(1).aborted, second.signal(2).aborted]).toEqual([true, false]);
  });

  it('of the running batch aborts that request’s signal alone, also one asked for later', () => {
    const cancels = createInstanceCancels();
    const batch = cancels.begin(1);
    const signals = [batch.signal(0), batch.signal(1)];
    cancels.take(order(1, 1));
    cancels.take(order(1, 2));
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
    expect(batch.signal(2).aborted).toBe(true);
    expect(batch.signal(0)).toBe(signals[0]);
  });

  it('that comes after its batch does nothing', () => {
    const cancels = createInstanceCancels();
    const over = cancels.begin(1);
    const next = cancels.begin(2);
    cancels.take(order(1, 0));
    expect([over.isCancelled(0), next.isCancelled(0)]).toEqual([false, false]);
  });
});

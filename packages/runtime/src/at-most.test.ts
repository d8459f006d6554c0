import { describe, expect, it } from 'vitest';
import { createAtMost } from './at-most.ts';

describe('at most so many at a time', () => {
  it('starts the next task when one is over, in order, also after a failure', async () => {
    const limit = createAtMost(2);
    const started: number[] = [];
    const ends = new Map<number, (failure?: Error) => void>();
    const load = (n: number) =>
      limit(() => {
        started.push(n);
        return new Promise<number>((resolve, reject) => {
          ends.set(n, (failure) => (failure === undefined ? resolve(n) : reject(failure)));
        });
      });
    const loads = [1, 2, 3, 4].map(load);
    await Promise.resolve();
    expect(started).toEqual([1, 2]);
    ends.get(2)?.(new Error('broken'));
    await expect(loads[1]).rejects.toThrow('broken');
    expect(started).toEqual([1, 2, 3]);
    ends.get(1)?.();
    await expect(loads[0]).resolves.toBe(1);
    expect(started).toEqual([1, 2, 3, 4]);
    ends.get(3)?.();
    ends.get(4)?.();
    await Promise.all([loads[2], loads[3]]);
    void load(5);
    expect(started).toEqual([1, 2, 3, 4, 5]);
  });
});

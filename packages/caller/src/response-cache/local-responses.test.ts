import type { Tensor } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import { answerBytes, type KeptAnswer } from './kept-answer.ts';
import { createLocalResponses } from './local-responses.ts';

const tensor = (name: string, data: Uint8Array): Tensor => ({
  name,
  datatype: 'UINT8',
  shape: [data.byteLength],
  data,
});
const answer = (bytes: number, fill = 7): KeptAnswer => ({
  parameters: {},
  outputs: [tensor('OUTPUT', new Uint8Array(bytes).fill(fill))],
});

function store(bytes_max: number, ttl_s = 0) {
  // The library takes a start at 0 for none.
  const clock = virtualClock(1_000_000);
  return { clock, ...createLocalResponses({ bytes_max, ttl_s, clock }) };
}

describe('answers in this process', () => {
  it('come back as they were, and no longer depend on the buffer that they were given in', () => {
    const { keep, find } = store(10_000);
    const batch = Uint8Array.of(1, 2, 3, 4, 5, 6);
    const outputs = [
      tensor('A', batch.subarray(1, 3)),
      tensor('B', batch.subarray(3, 6)),
      tensor('C', batch.subarray(6)),
    ];
    keep('k', { parameters: { p: 1n }, outputs });
    batch.fill(0);
    expect(find('k')).toEqual({
      parameters: { p: 1n },
      outputs: [tensor('A', Uint8Array.of(2, 3)), tensor('B', Uint8Array.of(4, 5, 6)), tensor('C', new Uint8Array(0))],
    });
  });

  it('survive being sent to a thread by whoever gets them', () => {
    const { keep, find } = store(10_000);
    keep('k', answer(100));
    const found = find('k') as KeptAnswer;
    const { port1, port2 } = new MessageChannel();
    const buffer = found.outputs[0]?.data.buffer as ArrayBuffer;
    try {
      port1.postMessage(buffer, [buffer]);
    } catch {
      // Later versions of Node refuse it.
    }
    port1.close();
    port2.close();
    expect(find('k')).toEqual(answer(100));
  });

  it('are bounded by their bytes: the one used longest ago goes first', () => {
    const each = answerBytes(answer(1_000));
    const { keep, find } = store(3 * each);
    for (const key of ['a', 'b', 'c']) keep(key, answer(1_000));
    expect(find('a')).toBeDefined();
    keep('d', answer(1_000));
    const there = ['a', 'b', 'c', 'd'].filter((key) => find(key) !== undefined);
    expect(there).toEqual(['a', 'c', 'd']);
    // One of twice the size takes the place of two.
    keep('e', answer(1_000 + each));
    expect(['a', 'c', 'd', 'e'].filter((key) => find(key) !== undefined)).toEqual(['d', 'e']);
  });

  it('are not kept where one is larger than the cache, and what is there stays', () => {
    const { keep, find } = store(2_000);
    keep('a', answer(1_000));
    keep('b', answer(2_000));
    expect([find('a') !== undefined, find('b')]).toEqual([true, undefined]);
  });

  it('end after their time', () => {
    const { keep, find, clock } = store(10_000, 60);
    keep('a', answer(10));
    clock.advanceUs(59_999_000);
    expect(find('a')).toBeDefined();
    clock.advanceUs(2_000);
    expect(find('a')).toBeUndefined();
  });
});

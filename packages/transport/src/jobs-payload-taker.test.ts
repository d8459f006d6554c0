import { createLog, systemClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import type { JobTaker, TakeOptions } from './jobs.ts';
import { withPayloads } from './jobs-payload-taker.ts';

test('the tensors of a job that is over go also where Redis does not answer for a while', async () => {
  let options: TakeOptions | undefined;
  const inner: JobTaker = {
    held: 0,
    more: () => {},
    progress: () => true,
    complete: async () => {},
    fail: async () => {},
    putBack: async () => {},
    close: async () => {},
  };
  let failures = 2;
  const removed: unknown[] = [];
  const taker = withPayloads(
    (given) => {
      options = given;
      return inner;
    },
    { by: 'co-1', token: () => 'co-1:1', room: () => 1, taken: () => true, lost: () => {} },
    {
      clock: systemClock(),
      log: createLog({ level: 'silent' }),
      model: 'm',
      isOver: async () => true,
      payloads: {
        take: async () => new Map([['r', Uint8Array.of(1)]]),
        write: async () => {},
        expire: async () => {},
        async remove(_model, _id, refs) {
          if (failures-- > 0) throw new Error('no answer in time');
          removed.push(refs);
        },
      },
    },
  );
  options?.taken({ id: 'A1', data: { inputs: [{ blob: { ref: 'r', byte_size: 1 } }] }, createdMs: 0, starts: 1 });
  await taker.complete('A1', 1);
  await expect.poll(() => removed).toEqual([['r']]);
  await taker.close();
});

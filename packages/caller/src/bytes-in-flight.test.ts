import { expect, it } from 'vitest';
import { createBytesInFlight } from './bytes-in-flight.ts';

it('takes up to the limit and not a byte more', () => {
  const bytes = createBytesInFlight(100);
  expect([bytes.take(60), bytes.take(41), bytes.take(40), bytes.take(1)]).toEqual([true, false, true, false]);
  expect(bytes.held).toBe(100);
  bytes.release(60);
  expect([bytes.take(60), bytes.held]).toEqual([true, 100]);
});

it('counts answers whatever is held', () => {
  const bytes = createBytesInFlight(100);
  bytes.add(150);
  expect([bytes.held, bytes.take(1)]).toEqual([150, false]);
  bytes.release(150);
  expect([bytes.held, bytes.take(100)]).toEqual([0, true]);
});

it('says what is held, and which flag changes the limit', () => {
  const bytes = createBytesInFlight(100);
  bytes.add(80);
  expect(bytes.refusal()).toEqual({
    code: 'UNAVAILABLE',
    message: expect.stringMatching(/hold 80 bytes, of 100 at most.*--max-bytes-in-flight/),
  });
});

import { expect, test } from 'vitest';
import { createProgressLine } from './jobs-progress.ts';

/** Writes fail while `failing`; a failure is tried again as `again` says. */
function world(again = true) {
  const written: unknown[] = [];
  const state = { failing: false, failures: 0, bytes: 0 };
  const line = createProgressLine({
    async write(value) {
      if (state.failing) throw new Error('away');
      written.push(value);
    },
    wrote: (bytes) => {
      state.bytes += bytes;
    },
    async again() {
      state.failures++;
      if (state.failures > 2) state.failing = false;
      return again;
    },
  });
  return { line, written, state };
}

test('values are written in order, and the end waits for them', async () => {
  const { line, written, state } = world();
  for (let index = 0; index < 200; index++) expect(line.tell(index, 2)).toBe(true);
  await line.settled();
  expect(written).toEqual(Array.from({ length: 200 }, (_, index) => index));
  expect(state.bytes).toBe(400);
  await line.settled();
});

test('a failed write is repeated', async () => {
  const { line, written, state } = world();
  state.failing = true;
  line.tell('a', 1);
  line.tell('b', 1);
  await line.settled();
  expect({ written, failures: state.failures }).toEqual({ written: ['a', 'b'], failures: 3 });
});

test('one that is not to be repeated leaves out what waits', async () => {
  const { line, written, state } = world(false);
  state.failing = true;
  line.tell('a', 1);
  line.tell('b', 1);
  await line.settled();
  state.failing = false;
  line.tell('c', 1);
  await line.settled();
  expect(written).toEqual(['c']);
});

test('more than may wait is not taken', async () => {
  const { line } = world();
  expect(line.tell('a', 67_108_864)).toBe(true);
  expect(line.tell('b', 1)).toBe(false);
  await line.settled();
  expect(line.tell('c', 1)).toBe(true);
  await line.settled();
});

test('what is dropped is not written', async () => {
  const { line, written } = world();
  for (let index = 0; index < 100; index++) line.tell(index, 1);
  line.drop();
  await line.settled();
  expect(written.length).toBeLessThanOrEqual(64);
});

import { expect, test } from 'vitest';
import {
  createChunkWindow,
  createTakenChunks,
  TAKEN_BYTES_MIN,
  TAKEN_CHUNKS_MIN,
  WINDOW_BYTES_MAX,
  WINDOW_CHUNKS_MAX,
} from './chunk-window.ts';

test.each([
  ['chunks', WINDOW_CHUNKS_MAX, 1],
  ['bytes', 1, WINDOW_BYTES_MAX],
])('a thread waits once so many %s are not taken, and goes on when they are', async (_, chunks, bytes) => {
  const window = createChunkWindow();
  for (let sent = 0; sent < chunks; sent++) {
    expect(window.room()).toBeUndefined();
    window.sent(bytes);
  }
  const room = window.room();
  window.taken(1, bytes);
  await room;
  expect(window.room()).toBeUndefined();
});

test.each([
  ['chunks', TAKEN_CHUNKS_MIN, 1],
  ['bytes', 1, TAKEN_BYTES_MIN],
])('a worker tells after so many %s, always before a window is full', (_, chunks, bytes) => {
  const told: (readonly number[])[] = [];
  const taken = createTakenChunks((...counts) => told.push(counts));
  for (let count = 0; count < 2 * chunks; count++) taken.add(bytes);
  expect(told).toEqual([
    [chunks, chunks * bytes],
    [chunks, chunks * bytes],
  ]);
  expect(chunks).toBeLessThanOrEqual(WINDOW_CHUNKS_MAX);
  expect(bytes).toBeLessThanOrEqual(WINDOW_BYTES_MAX);
});

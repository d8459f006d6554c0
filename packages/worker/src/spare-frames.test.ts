import { describe, expect, it } from 'vitest';
import { createSpareFrames, RETURNED_BYTES_MIN } from './spare-frames.ts';

const LARGE = RETURNED_BYTES_MIN * 4;

describe('spare frames', () => {
  it('gives what came back, once', () => {
    const frames = createSpareFrames();
    const frame = new ArrayBuffer(LARGE);
    frames.give(frame);
    expect(frames.take(LARGE)).toBe(frame);
    expect(frames.take(LARGE)).not.toBe(frame);
    expect(frames.bytes).toBe(0);
  });

  it.each([
    ['is a little larger', LARGE - 1, true],
    ['is twice as large', LARGE / 2, true],
    ['is smaller', LARGE + 1, false],
    ['is far larger', LARGE / 2 - 1, false],
  ])('of one that %s', (_rule, asked, used) => {
    const frames = createSpareFrames();
    const frame = new ArrayBuffer(LARGE);
    frames.give(frame);
    const taken = frames.take(asked);
    expect(taken === frame).toBe(used);
    expect(taken.byteLength).toBeGreaterThanOrEqual(asked);
  });

  it('small ones are fresh and clear', () => {
    expect(new Uint8Array(createSpareFrames().take(100))).toEqual(new Uint8Array(100));
  });

  it('keeps a few, the latest, and no large sum', () => {
    const frames = createSpareFrames();
    for (let count = 0; count < 20; count++) frames.give(new ArrayBuffer(LARGE));
    expect(frames.bytes).toBe(4 * LARGE);
    const large = new ArrayBuffer(16_000_000);
    frames.give(large);
    expect(frames.take(16_000_000)).toBe(large);
    frames.give(new ArrayBuffer(17_000_000));
    expect(frames.bytes).toBeLessThan(16_777_216);
  });
});

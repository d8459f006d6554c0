import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createHeartbeat } from './heartbeat.ts';

const PERIOD_US = 500_000;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A heartbeat whose beats end when told. */
function fixture() {
  const clock = virtualClock();
  const ends: (() => void)[] = [];
  let beats = 0;
  const heartbeat = createHeartbeat(clock, PERIOD_US, () => {
    beats++;
    return new Promise((resolve) => ends.push(resolve));
  });
  const end = async () => {
    ends.shift()?.();
    await settled();
  };
  return { clock, heartbeat, end, beats: () => beats };
}

test('beats once a period', async () => {
  const { clock, heartbeat, end, beats } = fixture();
  heartbeat.start();
  for (let n = 1; n <= 3; n++) {
    clock.advanceUs(PERIOD_US);
    expect(beats()).toBe(n);
    await end();
  }
});

test('a beat that took longer than a period is followed by one more, not by all that were missed', async () => {
  const { clock, heartbeat, end, beats } = fixture();
  heartbeat.start();
  clock.advanceUs(4 * PERIOD_US);
  expect(beats()).toBe(1);
  await end();
  expect(beats()).toBe(2);
  await end();
  expect(beats()).toBe(2);
});

test('soon brings a beat forward, once for all that asked during one', async () => {
  const { heartbeat, end, beats } = fixture();
  heartbeat.start();
  for (let n = 0; n < 3; n++) heartbeat.soon();
  expect(beats()).toBe(1);
  await end();
  expect(beats()).toBe(2);
});

test('after stop there is no beat and no timer, also not after one that was under way', async () => {
  const { clock, heartbeat, end, beats } = fixture();
  heartbeat.soon();
  expect(beats()).toBe(0);
  heartbeat.start();
  heartbeat.soon();
  heartbeat.soon();
  heartbeat.stop();
  expect(clock.liveTimers).toBe(0);
  await end();
  clock.advanceUs(PERIOD_US);
  expect(beats()).toBe(1);
});

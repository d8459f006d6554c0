import { createLog, virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createStalledCheck } from './jobs-stalled.ts';

const EVERY_MS = 1_000;

function world(together = true) {
  const clock = virtualClock();
  const running = new Set<string>();
  /** What was asked, with its time in milliseconds. */
  const asked: string[] = [];
  const moved: string[] = [];
  const at = (what: string) => `${clock.nowUs() / 1000} ${what}`;
  const check = createStalledCheck({
    clock,
    log: createLog({ level: 'silent' }),
    client: {
      exists: async (...keys: readonly unknown[]) => {
        asked.push(at(keys.join(' ')));
        return keys.filter((key) => running.has(String(key))).length;
      },
    } as Parameters<typeof createStalledCheck>[0]['client'],
    together,
    everyMs: EVERY_MS,
  });
  const queue = (name: string) => ({
    toKey: (type: string) => `${name}:${type}`,
    backend: {
      async moveStalledJobsToWait() {
        moved.push(at(name));
        return [];
      },
    },
  });
  /** In steps, so that what is asked is answered before the next timer. */
  const advance = async (ms: number) => {
    const answered = () => new Promise<void>((resolve) => setImmediate(resolve));
    await answered();
    for (let step = 0; step < ms; step += 100) {
      clock.advanceUs(100_000);
      await answered();
    }
  };
  return { clock, check, queue, running, asked, moved, advance };
}

test('while nothing runs a round is one question, however many queues there are', async () => {
  const { check, queue, asked, moved, advance } = world();
  for (const name of ['a', 'b', 'c']) check.add(queue(name));
  await advance(2_000);
  expect(asked.slice(3)).toEqual(['1000 a:active b:active c:active', '2000 a:active b:active c:active']);
  expect(moved).toEqual([]);
});

test('a queue with running jobs is looked through, at once and in each round, and no other is', async () => {
  const { check, queue, running, moved, advance } = world();
  running.add('b:active');
  for (const name of ['a', 'b']) check.add(queue(name));
  await advance(2_000);
  expect(moved).toEqual(['0 b', '1000 b', '2000 b']);
});

test('queues added at any time come to share a round, and none waits longer than its time', async () => {
  const { check, queue, running, asked, moved, advance } = world();
  running.add('a:active').add('b:active');
  check.add(queue('a'));
  await advance(600);
  check.add(queue('b'));
  await advance(2_000);
  expect(moved).toEqual(['0 a', '600 b', '1000 a', '1600 a', '1600 b', '2600 a', '2600 b']);
  expect(asked.filter((text) => text.includes(' a:active b:active'))).toHaveLength(2);
});

test('in a Cluster each queue is asked after by itself: their keys are on different nodes', async () => {
  const { check, queue, asked, advance } = world(false);
  for (const name of ['a', 'b']) check.add(queue(name));
  await advance(1_000);
  expect(asked.slice(2)).toEqual(['1000 a:active', '1000 b:active']);
});

test('without queues there is no timer', async () => {
  const { clock, check, queue, advance } = world();
  const stops = ['a', 'b'].map((name) => check.add(queue(name)));
  await advance(100);
  expect(clock.liveTimers).toBe(1);
  for (const stop of stops) stop();
  expect(clock.liveTimers).toBe(0);
});

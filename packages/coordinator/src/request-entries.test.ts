import type { Clock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createRequestEntries, type Entry } from './request-entries.ts';
import type { OwnedRequest } from './version-queue.ts';

/** Entries of a process that stands still: its time goes on and no timer comes. */
function standing() {
  let nowUs = 0;
  let timers = 0;
  const clock: Clock = {
    nowUs: () => nowUs,
    wallMs: () => 0,
    at() {
      timers++;
      return { cancel: () => void timers-- };
    },
  };
  const entries = createRequestEntries(clock, undefined, () => {});
  const late: string[] = [];
  const queue = (entry: Entry) =>
    entries.queue(entry, () => {
      late.push(entry.request.id);
      entries.forget(entry.request.id);
    });
  return {
    entries,
    late,
    queue,
    add(id: string, deadlineUs?: number) {
      const entry = entries.add({ id, deadlineUs, arrivedUs: 0 } as OwnedRequest);
      queue(entry);
      return entry;
    },
    at(us: number) {
      nowUs = us;
      entries.expire();
      return late.splice(0);
    },
    timers: () => timers,
  };
}

test('R24: before anything is sent, whoever is past its deadline leaves, once', () => {
  const { add, at, timers } = standing();
  for (const [id, us] of [
    ['a', 300],
    ['b', 100],
    ['c', 200],
  ] as const)
    add(id, us);
  add('for ever');
  expect(at(100)).toEqual([]);
  expect(at(101)).toEqual(['b']);
  expect(at(301)).toEqual(['a', 'c']);
  expect(at(1_000)).toEqual([]);
  expect(timers()).toBe(0);
});

test('one that runs has no deadline, until it is queued again', () => {
  const { entries, queue, add, at } = standing();
  const entry = add('a', 100);
  entries.runElsewhere(entry, 'wk-1');
  add('b', 500);
  expect(at(200)).toEqual([]);
  queue(entry);
  expect(at(200)).toEqual(['a']);
  expect(at(501)).toEqual(['b']);
});

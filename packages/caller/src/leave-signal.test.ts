import { expect, test } from 'vitest';
import { createLeaving, type LeaveSignal } from './leave-signal.ts';

function heard(signal: LeaveSignal, names: readonly string[]) {
  const told: string[] = [];
  const listeners = names.map((name) => () => void told.push(name));
  for (const listener of listeners) signal.addEventListener('abort', listener);
  return { told, listeners };
}

test.each(['a signal of its own', 'an AbortSignal'])(
  '%s tells each listener once, but not who has left off',
  (kind) => {
    const leaving = createLeaving();
    const controller = new AbortController();
    const own = kind === 'a signal of its own';
    const signal: LeaveSignal = own ? leaving : controller.signal;
    const leave = (why: string) => (own ? leaving.leave(why) : controller.abort(why));
    const { told, listeners } = heard(signal, ['a', 'b', 'c']);
    const [, second] = listeners;
    if (second !== undefined) signal.removeEventListener('abort', second);
    expect([signal.aborted, signal.reason]).toEqual([false, undefined]);
    leave('gone');
    leave('again');
    expect(told).toEqual(['a', 'c']);
    expect([signal.aborted, signal.reason]).toEqual([true, 'gone']);
    const late = heard(signal, ['d']);
    leave('once more');
    expect(late.told).toEqual([]);
  },
);

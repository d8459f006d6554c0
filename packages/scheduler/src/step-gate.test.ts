import { describe, expect, test } from 'vitest';
import { createStepGate } from './step-gate.ts';

describe('max_inflight_requests', () => {
  test('so many calls at once; the others in the order in which they came', () => {
    const gate = createStepGate<string>({ inflight_max: 2, wait_max_us: 100 });
    expect(['a', 'b', 'c', 'd'].map((call) => gate.enter(call, 0))).toEqual([true, true, false, false]);
    expect([gate.inflight, gate.waiting]).toEqual([2, 2]);
    expect(gate.leave()).toBe('c');
    expect(gate.leave()).toBe('d');
    expect(gate.leave()).toBeUndefined();
    expect([gate.inflight, gate.waiting]).toEqual([1, 0]);
  });

  test('0 is no bound', () => {
    const gate = createStepGate<number>({ inflight_max: 0, wait_max_us: 100 });
    for (let call = 0; call < 1000; call++) expect(gate.enter(call, 0)).toBe(true);
    expect(gate.leave()).toBeUndefined();
    expect(gate.nextExpiryUs).toBe(Number.POSITIVE_INFINITY);
  });

  test('one that is withdrawn takes no place', () => {
    const gate = createStepGate<string>({ inflight_max: 1, wait_max_us: 100 });
    for (const call of ['a', 'b', 'c']) gate.enter(call, 0);
    expect(gate.withdraw('b')).toBe(true);
    expect(gate.withdraw('a')).toBe(false);
    expect(gate.leave()).toBe('c');
  });

  test('one that has waited for too long goes all the same, and the bound holds again once as many are over', () => {
    const gate = createStepGate<string>({ inflight_max: 1, wait_max_us: 100 });
    gate.enter('a', 0);
    gate.enter('b', 10);
    gate.enter('c', 50);
    expect(gate.nextExpiryUs).toBe(110);
    expect(gate.expire(109)).toEqual([]);
    expect(gate.expire(110)).toEqual(['b']);
    expect(gate.inflight).toBe(2);
    expect(gate.leave()).toBeUndefined();
    expect(gate.leave()).toBe('c');
  });
});

import { describe, expect, test } from 'vitest';
import { createReturningClients } from './returning-clients.ts';

const RUN_US = 4_000;
const HOLD_US = 1_000;

/** Answers a batch of 4 every 10 ms, of which so many come back after `afterUs`. */
function taught(batches: number, back: number, afterUs: number) {
  const clients = createReturningClients();
  for (let batch = 0; batch < batches; batch++) {
    const nowUs = batch * 10_000;
    clients.answered(4, RUN_US, nowUs);
    for (let each = 0; each < back; each++) clients.arrived(nowUs + afterUs);
  }
  const nowUs = batches * 10_000;
  clients.answered(4, RUN_US, nowUs);
  return { clients, nowUs };
}

describe('clients that have just been answered are waited for', () => {
  test.each([
    ['nothing is known of them', 0, 4, 100, false],
    ['all come at once', 40, 4, 100, true],
    ['three quarters come at once', 40, 3, 900, true],
    ['a quarter comes at once', 40, 1, 100, false],
    ['all come, but later than a batch may be held', 40, 4, 1_500, false],
  ])('%s', (_what, batches, back, afterUs, held) => {
    const { clients, nowUs } = taught(batches, back, afterUs);
    expect(clients.holdUntilUs(nowUs)).toBe(held ? nowUs + HOLD_US : undefined);
  });

  test('until all are back', () => {
    const { clients, nowUs } = taught(40, 4, 100);
    for (let each = 0; each < 3; each++) clients.arrived(nowUs + 100);
    expect(clients.holdUntilUs(nowUs + 100)).toBe(nowUs + HOLD_US);
    clients.arrived(nowUs + 150);
    expect(clients.holdUntilUs(nowUs + 150)).toBeUndefined();
  });

  test('until the time is over, and not again for the same batch', () => {
    const { clients, nowUs } = taught(40, 4, 100);
    expect(clients.holdUntilUs(nowUs + HOLD_US - 1)).toBe(nowUs + HOLD_US);
    expect(clients.holdUntilUs(nowUs + HOLD_US)).toBeUndefined();
  });

  test('no longer once they stay away', () => {
    const { clients, nowUs } = taught(40, 4, 100);
    for (let batch = 1; batch <= 6; batch++) clients.answered(4, RUN_US, nowUs + batch * 10_000);
    expect(clients.holdUntilUs(nowUs + 60_000)).toBeUndefined();
  });

  test('of two instances: to the earlier end', () => {
    const { clients, nowUs } = taught(40, 4, 100);
    clients.answered(4, RUN_US, nowUs + 300);
    expect(clients.holdUntilUs(nowUs + 400)).toBe(nowUs + HOLD_US);
    expect(clients.holdUntilUs(nowUs + HOLD_US)).toBeUndefined();
    clients.batchGone();
    expect(clients.holdUntilUs(nowUs + HOLD_US)).toBe(nowUs + 300 + HOLD_US);
  });

  test.each([
    ['a run too short to gain by it', 300, undefined],
    ['a long run', 1_000_000, 5_000],
  ])('%s', (_what, runUs, heldUs) => {
    const { clients, nowUs } = taught(40, 4, 100);
    for (let each = 0; each < 4; each++) clients.arrived(nowUs);
    clients.answered(4, runUs, nowUs + 10);
    expect(clients.holdUntilUs(nowUs + 10)).toBe(heldUs === undefined ? undefined : nowUs + 10 + heldUs);
  });
});

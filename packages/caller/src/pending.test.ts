import {
  type CarriedOutcome,
  type InferMessage,
  type InferRequest,
  type Outcome,
  REQUEST_DEFAULTS,
} from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { createPending, type Pending } from './pending.ts';

const REQUEST: InferRequest = {
  ...REQUEST_DEFAULTS,
  modelName: 'm',
  inputs: [],
};

const FAILED: Outcome = { ok: false, error: { code: 'INTERNAL', message: 'no' } };

function add(pending: Pending, outcomes: CarriedOutcome[], signal?: AbortSignal, onAbort?: () => void): string {
  const { g, id } = pending.next();
  const message: InferMessage = {
    kind: 'infer',
    model: 'm',
    epoch: { number: 1, owner: 'co-1' },
    id,
    g,
    low: pending.low,
    prev: 0,
    session: null,
    step: -1,
    sends: 1,
    msLeft: 0,
    replyTo: 'gw-1',
    request: REQUEST,
  };
  if (onAbort !== undefined) signal?.addEventListener('abort', onAbort);
  pending.add({
    message,
    resolve: (outcome) => outcomes.push(outcome),
    stream: undefined,
    step: undefined,
    settled: undefined,
    timed: undefined,
    missing: undefined,
    arrivedUs: 0,
    mark: undefined,
    events: undefined,
    signal,
    onAbort,
    deadlineUs: undefined,
    sentUs: 0,
    resendMs: 0,
    redirects: 0,
    tensorLosses: 0,
    returned: false,
    relocating: false,
    strandedUs: undefined,
  });
  return id;
}

describe('pending', () => {
  it('gives each request one outcome and drops late and duplicate answers', () => {
    const pending = createPending('gw-1', 10);
    const outcomes: CarriedOutcome[] = [];
    const id = add(pending, outcomes);
    expect(pending.settle(id, FAILED)).toBe(true);
    expect(pending.settle(id, FAILED)).toBe(false);
    expect(outcomes).toEqual([FAILED]);
    expect(pending.size).toBe(0);
  });

  it.each(['gw-0:1', 'gw-1:2', 'gw-1:', 'gw-1', '1', 'gw-1:x'])('knows no waiter of token %s', (token) => {
    const pending = createPending('gw-1', 10);
    add(pending, []);
    expect(pending.find(token)).toBeUndefined();
    expect(pending.settle(token, FAILED)).toBe(false);
    expect(pending.size).toBe(1);
  });

  it('has as low the smallest g without an outcome', () => {
    const pending = createPending('gw-1', 10);
    const ids = [1, 2, 3, 4].map(() => add(pending, []));
    const lows = [1, 0, 3, 2].map((index) => {
      pending.settle(ids[index] ?? '', FAILED);
      return pending.low;
    });
    expect(lows).toEqual([1, 3, 3, 5]);
    add(pending, []);
    expect(pending.low).toBe(5);
  });

  it('is full at its bound and not before', () => {
    const pending = createPending('gw-1', 2);
    const id = add(pending, []);
    expect(pending.full).toBe(false);
    add(pending, []);
    expect(pending.full).toBe(true);
    pending.settle(id, FAILED);
    expect(pending.full).toBe(false);
  });

  it('takes its listener off the signal at the outcome', () => {
    const pending = createPending('gw-1', 10);
    const controller = new AbortController();
    let aborted = 0;
    const id = add(pending, [], controller.signal, () => aborted++);
    pending.settle(id, FAILED);
    controller.abort();
    expect(aborted).toBe(0);
  });

  it('settles all that wait and tells once that it is empty', () => {
    const pending = createPending('gw-1', 10);
    const outcomes: CarriedOutcome[] = [];
    add(pending, outcomes);
    add(pending, outcomes);
    let empty = 0;
    pending.whenEmpty(() => empty++);
    pending.settleAll(FAILED);
    expect([outcomes.length, pending.size, pending.low, empty]).toEqual([2, 0, 3, 1]);
    pending.settle(add(pending, outcomes), FAILED);
    expect(empty).toBe(1);
    pending.whenEmpty(() => empty++);
    expect(empty).toBe(2);
  });
});

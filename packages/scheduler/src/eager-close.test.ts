import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { answerByUs, createEagerClose, type EagerClose } from './eager-close.ts';
import { type ClosedLoop, meanBatch, runClosedLoop } from './fixture-closed-loop.ts';
import { queuedRequest } from './fixture-request.ts';
import { DEFAULTS } from './fixture-timeline.ts';
import type { CloseReason, ScheduleEvent } from './schedule.ts';

const DELAY_US = 100_000;
const AWAITED_US = 25_000;
const NEVER = Number.POSITIVE_INFINITY;
const TIMES = { runUs: 8_000, wayUs: 2_000 };
/** A batch of all that waits, without a deadline. */
const BATCH = { answerByUs: NEVER, only: true };

const came = (rule: EagerClose, nowUs: number, more: Parameters<typeof queuedRequest>[0] = { id: 'r' }) =>
  rule.arrived(queuedRequest(more), nowUs);

describe('a batch that waits for its delay is closed early', () => {
  test.each<[what: string, before: (rule: EagerClose) => void, nowUs: number, untilUs: number | 'alone']>([
    ['nobody else is known of', () => {}, 0, 'alone'],
    ['another runs: its client may send the next', (rule) => rule.running(1, undefined), 0, NEVER],
    [
      'it no longer runs',
      (rule) => {
        rule.running(1, undefined);
        rule.running(0, undefined);
      },
      0,
      'alone',
    ],
    ['two were just answered', (rule) => rule.answered(2, 0), 10, AWAITED_US],
    [
      'two were just answered and one is back',
      (rule) => {
        rule.answered(2, 0);
        came(rule, 10);
      },
      20,
      AWAITED_US,
    ],
    [
      'both are back',
      (rule) => {
        rule.answered(2, 0);
        came(rule, 10);
        came(rule, 10);
      },
      20,
      'alone',
    ],
    ['they stayed away', (rule) => rule.answered(2, 0), AWAITED_US, 'alone'],
    [
      'the last of two batches that were answered is waited for',
      (rule) => {
        rule.answered(1, 0);
        rule.answered(1, 5_000);
      },
      6_000,
      5_000 + AWAITED_US,
    ],
    [
      'one that stayed away is not taken for one that was answered later and is back',
      (rule) => {
        rule.answered(1, 0);
        rule.answered(1, AWAITED_US - 5_000);
        came(rule, AWAITED_US + 1);
      },
      AWAITED_US + 2,
      'alone',
    ],
    ['a gateway receives others', (rule) => came(rule, 0, { id: 'r', coming: 2 }), 10, AWAITED_US],
    [
      'it has received all of them',
      (rule) => {
        came(rule, 0, { id: 'r', coming: 1 });
        came(rule, 5, { id: 's', coming: 0 });
      },
      10,
      'alone',
    ],
    [
      'of two gateways one still receives others',
      (rule) => {
        came(rule, 0, { id: 'r', sender: 'gw-1', coming: 1 });
        came(rule, 5, { id: 's', sender: 'gw-2' });
      },
      10,
      AWAITED_US,
    ],
    [
      'a gateway that is gone, or that refused what it received, holds nobody for long',
      (rule) => came(rule, 0, { id: 'r', coming: 9 }),
      AWAITED_US,
      'alone',
    ],
  ])('where nobody else can come: %s', (_what, before, nowUs, untilUs) => {
    const rule = createEagerClose(DELAY_US);
    before(rule);
    expect(rule.verdict(BATCH, nowUs)).toEqual(
      untilUs === 'alone' ? { type: 'send', reason: 'alone' } : { type: 'wait', untilUs },
    );
  });

  test('not where its queue holds others that may yet join others', () => {
    expect(createEagerClose(DELAY_US).verdict({ answerByUs: NEVER, only: false }, 0)).toEqual({
      type: 'wait',
      untilUs: NEVER,
    });
  });

  test('a long delay does not make those who were answered waited for longer than 50 ms', () => {
    const rule = createEagerClose(10_000_000);
    rule.answered(1, 0);
    expect(rule.verdict(BATCH, 0)).toEqual({ type: 'wait', untilUs: 50_000 });
  });

  test.each([
    ['in time: as long as there is room', 50_000, 0, { type: 'wait', untilUs: 38_000 }],
    ['no room is left to wait', 50_000, 38_000, { type: 'send', reason: 'deadline' }],
    ['it is too late already: at once', 5_000, 0, { type: 'send', reason: 'deadline' }],
  ])('for its earliest deadline, %s', (_what, byUs, nowUs, verdict) => {
    const rule = createEagerClose(DELAY_US);
    rule.running(3, TIMES);
    expect(rule.verdict({ answerByUs: byUs, only: true }, nowUs)).toEqual(verdict);
  });

  test('the deadline is that of whoever sent the request, not the later one that a door tells', () => {
    expect(answerByUs(queuedRequest({ id: 'r', deadlineUs: 500_000 }))).toBe(300_000);
    expect(answerByUs(queuedRequest({ id: 'job', deadlineUs: 500_000, patient: true }))).toBe(500_000);
    expect(answerByUs(queuedRequest({ id: 'r' }))).toBe(NEVER);
  });
});

/** A batcher with one instance that is free; each batch that goes, with its time and reason. */
function batcher(eager: boolean, delay_us = DELAY_US) {
  const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us, eager });
  const sent: [atUs: number, ids: readonly string[], reason: CloseReason][] = [];
  let wakeUs = NEVER;
  let nowUs = 0;
  const step = (event: ScheduleEvent) => {
    for (const decision of scheduler.step(event, nowUs)) {
      if (decision.type === 'wake') wakeUs = decision.atUs;
      else if (decision.type === 'dispatch') {
        sent.push([nowUs, decision.batch.map(({ id }) => id), decision.reason]);
        step({ type: 'instance-free', instance: decision.instance });
      }
    }
    if (scheduler.waiting === 0) wakeUs = NEVER;
  };
  step({ type: 'instance-free', instance: 'wk/0' });
  return {
    sent,
    scheduler,
    step,
    /** Time passes, and what was wished for happens. */
    at(us: number) {
      while (wakeUs <= us) {
        nowUs = wakeUs;
        wakeUs = NEVER;
        step({ type: 'time' });
      }
      nowUs = us;
    },
  };
}

describe('a batcher', () => {
  test.each([
    ['with nereid.eager_batch sends a lone request at once', true, [0, 'alone']],
    ['without it keeps it for the delay', false, [DELAY_US, 'delay']],
  ] as const)('%s', (_what, eager, [atUs, reason]) => {
    const { step, at, sent } = batcher(eager);
    step({ type: 'arrived', request: queuedRequest({ id: 'a' }) });
    at(DELAY_US);
    expect(sent).toEqual([[atUs, ['a'], reason]]);
  });

  test('sends all that waits when those who were waited for stay away', () => {
    const { step, at, sent } = batcher(true);
    step({ type: 'answered', requests: 3, runUs: 1 });
    step({ type: 'arrived', request: queuedRequest({ id: 'a' }) });
    at(1_000);
    step({ type: 'arrived', request: queuedRequest({ id: 'b', arrivedUs: 1_000 }) });
    at(DELAY_US);
    expect(sent).toEqual([[AWAITED_US, ['a', 'b'], 'alone']]);
  });

  test('sends in time for the earliest deadline in the batch', () => {
    const { step, at, sent } = batcher(true);
    step({ type: 'running', requests: 1, times: TIMES });
    step({ type: 'arrived', request: queuedRequest({ id: 'a', deadlineUs: 900_000, patient: true }) });
    step({ type: 'arrived', request: queuedRequest({ id: 'b', deadlineUs: 50_000, patient: true }) });
    at(DELAY_US);
    expect(sent).toEqual([[38_000, ['a', 'b'], 'deadline']]);
  });

  test('knows that what it has just sent runs', () => {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us: DELAY_US, eager: true });
    for (const instance of ['wk/0', 'wk/1']) scheduler.step({ type: 'instance-free', instance }, 0);
    scheduler.step({ type: 'arrived', request: queuedRequest({ id: 'a', coming: 1 }) }, 0);
    const other = queuedRequest({ id: 'b', shapeKey: 'other' });
    const decisions = scheduler.step({ type: 'arrived', request: other }, 0);
    expect(decisions).toMatchObject([{ type: 'dispatch', batch: [{ id: 'a' }], reason: 'shape' }]);
    scheduler.step({ type: 'running', requests: 1, times: TIMES }, 0);
    expect(scheduler.step({ type: 'time' }, DELAY_US)).toMatchObject([
      { type: 'dispatch', batch: [{ id: 'b' }], reason: 'delay' },
    ]);
  });

  test.each([true, false])('that drains sends what waits, and what still comes, at once (eager: %s)', (eager) => {
    const { step, at, sent } = batcher(eager);
    step({ type: 'running', requests: 1, times: TIMES });
    step({ type: 'arrived', request: queuedRequest({ id: 'a' }) });
    at(10);
    expect(sent).toEqual([]);
    step({ type: 'draining' });
    step({ type: 'arrived', request: queuedRequest({ id: 'b', arrivedUs: 10 }) });
    expect(sent).toEqual([
      [10, ['a'], 'drain'],
      [10, ['b'], 'drain'],
    ]);
  });

  test('whatever it is told of others: nobody waits longer than the delay, and no batch is split or left', () => {
    const action = fc.oneof(
      fc.record({ do: fc.constant('arrive' as const), rows: fc.integer({ min: 1, max: 8 }), coming: fc.nat(3) }),
      fc.record({ do: fc.constant('answered' as const), requests: fc.nat(8) }),
      fc.record({ do: fc.constant('running' as const), requests: fc.nat(3) }),
      fc.record({ do: fc.constant('pass' as const), us: fc.nat(60_000) }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), fc.constantFrom(1_000, DELAY_US), (actions, delay_us) => {
        const { step, at, sent } = batcher(true, delay_us);
        const arrived: number[] = [];
        const rows: number[] = [];
        let nowUs = 0;
        for (const given of actions) {
          if (given.do === 'pass') {
            nowUs += given.us;
            at(nowUs);
          } else if (given.do === 'arrive') {
            const { rows: rowsOf, coming } = given;
            const deadlineUs = rowsOf % 2 === 0 ? nowUs + 250_000 : undefined;
            const request = { id: `${arrived.length}`, rows: rowsOf, arrivedUs: nowUs, coming, deadlineUs };
            arrived.push(nowUs);
            rows.push(rowsOf);
            step({ type: 'arrived', request: queuedRequest(request) });
          } else if (given.do === 'answered') step({ type: 'answered', requests: given.requests, runUs: 1_000 });
          else step({ type: 'running', requests: given.requests, times: TIMES });
        }
        at(nowUs + delay_us);
        const went = sent.flatMap(([atUs, ids]) => ids.map((id) => ({ id: Number(id), atUs })));
        expect(went.map(({ id }) => id)).toEqual(arrived.map((_, id) => id));
        for (const { id, atUs } of went) expect(atUs - (arrived[id] ?? 0)).toBeLessThanOrEqual(delay_us);
        for (const [, ids] of sent) {
          const total = ids.reduce((sum, id) => sum + (rows[Number(id)] ?? 0), 0);
          expect(ids.length === 1 || total <= 8).toBe(true);
        }
      }),
    );
  });
});

describe('clients in a closed loop, with a delay of 300 ms', () => {
  /** The mean batch after the first tenth of 3 s. */
  function mean(clients: number, backUs: ClosedLoop['backUs']): number {
    const scheduler = createDynamicScheduler({ ...DEFAULTS, delay_us: 300_000, eager: true });
    const loop = { clients, backUs, instances: 1, run_us: 10_000, apart_us: 700, untilUs: 3_000_000 };
    return meanBatch(runClosedLoop(scheduler, loop).filter(({ atUs }) => atUs > 300_000));
  }

  test.each([
    ['8 that ask again at once', 8, (client: number) => 200 + client * 40, 8],
    [
      '8 of which one takes its time now and then',
      8,
      (client: number, batches: number) => (client === batches % 40 ? 70_000 : 300),
      6,
    ],
    ['one', 1, () => 300, 1],
    ['20, more than there is room for', 20, (client: number) => 200 + client * 40, 6],
  ] as const)('%s', (_what, clients, backUs, least) => {
    expect(mean(clients, backUs)).toBeGreaterThanOrEqual(least);
  });
});

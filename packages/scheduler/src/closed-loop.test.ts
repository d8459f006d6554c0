import { describe, expect, test } from 'vitest';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { DEFAULTS } from './fixture-timeline.ts';
import type { ScheduleEvent } from './schedule.ts';

const RUN_US = 10_000;
const LONG_US = 2_000_000;
/** Batches by then are of a batcher that knows its clients. */
const LEARNT_US = 1_000_000;

interface Loop {
  readonly clients: number;
  readonly instances: number;
  /** Between an answer and the next request of its client. */
  readonly backUs: (client: number) => number;
}

interface Sent {
  readonly requests: number;
  readonly atUs: number;
  /** Since the last of its requests came. */
  readonly heldUs: number;
}

/** Clients with one request in flight each, in virtual time; what was sent after LEARNT_US. */
function run({ clients, instances, backUs }: Loop): Sent[] {
  const scheduler = createDynamicScheduler(DEFAULTS);
  const agenda: { us: number; event: ScheduleEvent }[] = [];
  const sent: Sent[] = [];
  let asked = 0;
  const ask = (us: number, client: number) => {
    const request = queuedRequest({ id: `${client}-${asked++}`, arrivedUs: us });
    agenda.push({ us, event: { type: 'arrived', request } });
  };
  for (let index = 0; index < instances; index++) {
    agenda.push({ us: 0, event: { type: 'instance-free', instance: `wk/${index}` } });
  }
  for (let client = 0; client < clients; client++) ask(1 + client * 100, client);
  let nowUs = 0;
  while (nowUs < LONG_US) {
    const next = agenda.reduce((best, each) => (each.us < best.us ? each : best));
    agenda.splice(agenda.indexOf(next), 1);
    nowUs = next.us;
    for (const decision of scheduler.step(next.event, nowUs)) {
      if (decision.type === 'wake') agenda.push({ us: decision.atUs, event: { type: 'time' } });
      if (decision.type !== 'dispatch') continue;
      const { batch, instance } = decision;
      const endUs = nowUs + RUN_US;
      const lastUs = Math.max(...batch.map(({ arrivedUs }) => arrivedUs));
      sent.push({ requests: batch.length, atUs: nowUs, heldUs: nowUs - lastUs });
      agenda.push({ us: endUs, event: { type: 'answered', requests: batch.length, runUs: RUN_US } });
      agenda.push({ us: endUs, event: { type: 'instance-free', instance } });
      for (const { id } of batch) {
        const client = Number(id.split('-')[0]);
        ask(endUs + backUs(client), client);
      }
    }
  }
  return sent.filter(({ atUs }) => atUs >= LEARNT_US);
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const atOnce = (client: number) => 200 + client * 40;

describe('without a delay, batches of clients that ask again at once', () => {
  test.each([
    ['one instance, as many clients as a batch has room for', 8, 1, 8],
    ['two instances, as many clients as both have room for', 16, 2, 7.9],
    ['fewer clients than a batch has room for', 5, 1, 5],
    ['one client', 1, 1, 1],
    ['more clients than there is room for', 20, 1, 8],
  ])('%s', (_what, clients, instances, least) => {
    const sent = run({ clients, instances, backUs: atOnce });
    expect(mean(sent.map(({ requests }) => requests))).toBeGreaterThanOrEqual(least);
  });

  test('go as soon as the last of them is there', () => {
    const held = run({ clients: 5, instances: 1, backUs: atOnce }).map(({ heldUs }) => heldUs);
    expect(Math.max(...held)).toBe(0);
  });
});

test('clients that think before they ask again are not waited for', () => {
  const sent = run({ clients: 3, instances: 3, backUs: (client) => 7_000 + client * 3_100 });
  expect(sent.map(({ requests, heldUs }) => [requests, heldUs])).toEqual(sent.map(() => [1, 0]));
});

test('a batch is held no longer though others are answered meanwhile', () => {
  const scheduler = createDynamicScheduler(DEFAULTS);
  let asked = 0;
  const step = (event: ScheduleEvent, nowUs: number) => scheduler.step(event, nowUs);
  const arrive = (us: number) =>
    step({ type: 'arrived', request: queuedRequest({ id: `r${asked++}`, arrivedUs: us }) }, us);
  const answered: ScheduleEvent = { type: 'answered', requests: 4, runUs: RUN_US };
  step({ type: 'instance-free', instance: 'wk/0' }, 0);
  let nowUs = 0;
  for (let round = 0; round < 40; round++) {
    nowUs += 20_000;
    step(answered, nowUs);
    for (let client = 0; client < 4; client++) arrive(nowUs + 10);
    step({ type: 'instance-free', instance: 'wk/0' }, nowUs + 10);
  }
  nowUs += 20_000;
  step(answered, nowUs);
  step({ type: 'instance-free', instance: 'wk/0' }, nowUs);
  const untilUs = nowUs + RUN_US / 4;
  expect(arrive(nowUs + 1)).toEqual([{ type: 'wake', atUs: untilUs }]);
  step(answered, untilUs - 100);
  expect(step({ type: 'time' }, untilUs)).toMatchObject([{ type: 'dispatch', batch: [{ id: `r${asked - 1}` }] }]);
});

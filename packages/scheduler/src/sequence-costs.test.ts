import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { meanBatch, runClosedLoop } from './fixture-closed-loop.ts';
import { queuedRequest } from './fixture-request.ts';
import { sequenceScheduler } from './fixture-sequences.ts';
import type { QueuedRequest } from './schedule.ts';
import { createSlotNumbers } from './slot-numbers.ts';

describe('oldest, without a delay: batches of sequences whose clients send the next step at once', () => {
  test.each([
    ['as many as a batch has room for', 16, 1, 16],
    ['four times as many', 64, 1, 16],
    ['on two instances', 32, 2, 15.9],
  ])('%s', (_what, clients, instances, least) => {
    const candidates = `oldest { max_candidate_sequences: ${clients / instances} }`;
    const sent = runClosedLoop(sequenceScheduler(candidates, 16), {
      clients,
      instances,
      sequences: true,
      run_us: 10_000,
      apart_us: 10,
      untilUs: 2_000_000,
      backUs: (client) => 200 + client * 20,
    });
    expect(meanBatch(sent.filter(({ atUs }) => atUs >= 1_000_000))).toBeGreaterThanOrEqual(least);
  });
});

/** A measure that no machine's speed changes. */
function countedStep(id: string, session: string, end: boolean, count: { looks: number }): QueuedRequest {
  const given = queuedRequest({ id, sequence: { session, start: !end, end, replaces: undefined } });
  return {
    ...given,
    get arrivedUs() {
      count.looks++;
      return 0;
    },
    get sequence() {
      count.looks++;
      return given.sequence;
    },
  };
}

test.each([
  ['direct { }'],
  ['direct { max_queue_delay_microseconds: 1000 minimum_slot_utilization: 1 }'],
  ['oldest { max_candidate_sequences: 64 }'],
  ['oldest { max_candidate_sequences: 64 max_queue_delay_microseconds: 1000 }'],
])('%s: of 10,000 sequences for 64 slots each step is looked at a bounded number of times', (config) => {
  const SEQUENCES = 10_000;
  const count = { looks: 0 };
  const scheduler = sequenceScheduler(config, 64, 2 * SEQUENCES);
  for (let index = 0; index < SEQUENCES; index++) {
    for (const end of [false, true]) {
      scheduler.step({ type: 'arrived', request: countedStep(`${index}.${end}`, `s${index}`, end, count) }, 0);
    }
  }
  let batches = 0;
  let out: readonly QueuedRequest[] = [];
  for (let nowUs = 0; scheduler.waiting > 0 || out.length > 0; nowUs += 2_000) {
    for (const { id } of out) scheduler.step({ type: 'step-over', id, ended: id.endsWith('true') }, nowUs);
    out = [];
    for (const decision of scheduler.step({ type: 'instance-free', instance: 'a' }, nowUs)) {
      if (decision.type === 'dispatch') out = decision.batch;
    }
    batches++;
  }
  expect([...(scheduler.sessions ?? [])]).toEqual([]);
  expect(batches).toBeLessThan((2 * SEQUENCES) / 64 + 10);
  expect(count.looks).toBeLessThanOrEqual(2 * SEQUENCES * 6);
});

test('the lowest free slot number, whatever was taken and given', () => {
  const act = fc.record({ takes: fc.boolean(), lowest: fc.boolean(), slot: fc.nat(11) });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(act, { maxLength: 60 }), (slots, acts) => {
      const numbers = createSlotNumbers(slots);
      const taken = new Set<number>();
      for (const { takes, lowest, slot: any } of acts) {
        const slot = lowest ? (numbers.lowestFree ?? any) : any;
        if (takes) {
          numbers.take(slot);
          taken.add(slot);
        } else {
          numbers.give(slot);
          taken.delete(slot);
        }
        const free = Array.from({ length: slots }, (_, index) => index).find((index) => !taken.has(index));
        expect(numbers.lowestFree).toBe(free);
      }
    }),
    { numRuns: 2_000 },
  );
});

import { describe, expect, test } from 'vitest';
import { playSequences, type SequenceTimeline } from './fixture-sequences.ts';

const IDLE = 'max_sequence_idle_microseconds: 100000';

const SLOTS: readonly SequenceTimeline[] = [
  {
    rule: 'sequences spread over instances before they share one',
    config: `${IDLE} direct { }`,
    max_batch_size: 2,
    instances: 2,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'c^'],
      [3, 'd^'],
    ],
    log: [
      '0 wk/0: a1@0 free',
      '1 wk/1: b1@0 free',
      '10 wk/0: c1@1 free',
      '11 wk/1: d1@1 free',
      '100 closed a idle bound',
      '101 closed b idle bound',
      '102 closed c idle bound',
      '103 closed d idle bound',
    ],
  },
  {
    rule: 'the lowest free slot number goes first, on whichever instance',
    config: 'direct { }',
    max_batch_size: 2,
    instances: 2,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'c^'],
      [3, 'b$'],
      [4, 'd^$'],
      [5, 'a$'],
      [6, 'c$'],
    ],
    log: [
      '0 wk/0: a1@0 free',
      '1 wk/1: b1@0 free',
      '2 wk/0: c1@1 free',
      '3 wk/1: b2@0 free',
      '4 wk/1: d1@0 free',
      '5 wk/0: a2@0 free',
      '6 wk/0: c2@1 free',
    ],
  },
  {
    rule: 'one more than the slots waits, with all of its steps, until another ends',
    config: 'direct { }',
    max_batch_size: 1,
    run_ms: 1,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'b'],
      [3, 'c^$'],
      [10, 'a$'],
      [11, 'b$'],
    ],
    log: [
      '0 wk/0: a1@0 full',
      '10 wk/0: a2@0 full',
      '11 wk/0: b1@0 full',
      '12 wk/0: b2@0 full',
      '13 wk/0: b3@0 full',
      '14 wk/0: c1@0 full',
    ],
  },
  {
    rule: 'max_candidate_sequences are the slots of an instance, also without a batch dimension',
    config: 'oldest { max_candidate_sequences: 2 }',
    max_batch_size: 0,
    run_ms: 5,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'c^$'],
      [10, 'b$'],
      [11, 'a$'],
    ],
    log: ['0 wk/0: a1@0 full', '5 wk/0: b1@1 full', '10 wk/0: b2@1 full', '15 wk/0: a2@0 full', '20 wk/0: c1@1 full'],
  },
  {
    rule: 'a START for a live sequence runs after what that one still has, in its slot',
    config: 'direct { }',
    max_batch_size: 1,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'a'],
      [2, 'x^$'],
      [3, 'b^', { replaces: 'a' }],
      [4, 'b$'],
    ],
    log: ['0 wk/0: a1@0 full', '10 wk/0: a2@0 full', '20 wk/0: b1@0 full', '30 wk/0: b2@0 full', '40 wk/0: x1@0 full'],
  },
  {
    rule: 'a START for a quiet sequence has its slot at once',
    config: 'oldest { max_candidate_sequences: 4 }',
    events: [
      [0, 'a^'],
      [1, 'x^'],
      [2, 'b^$', { replaces: 'a' }],
      [3, 'x$'],
    ],
    log: ['0 wk/0: a1@0 free', '1 wk/0: x1@1 free', '2 wk/0: b1@0 free', '3 wk/0: x2@1 free'],
  },
  {
    rule: 'two STARTs of one correlation id share a place in the backlog',
    config: 'direct { }',
    max_batch_size: 1,
    run_ms: 1,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'x^$'],
      [3, 'c^$', { replaces: 'b' }],
      [10, 'a$'],
    ],
    log: ['0 wk/0: a1@0 full', '10 wk/0: a2@0 full', '11 wk/0: b1@0 full', '12 wk/0: c1@0 full', '13 wk/0: x1@0 full'],
  },
];

const STRATEGIES: readonly SequenceTimeline[] = [
  {
    rule: 'direct: a batch is what the slots have ready, one step of each, by slots',
    config: 'direct { }',
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'c^'],
      [3, 'c$'],
      [4, 'a$'],
      [5, 'b$'],
    ],
    log: ['0 wk/0: a1@0 free', '10 wk/0: a2@0 b1@1 c1@2 free', '20 wk/0: b2@1 c2@2 free'],
  },
  {
    rule: 'direct: steps of another shape than that of the one which waits longest wait for the next batch',
    config: 'direct { }',
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'b^$', { shapeKey: 'long' }],
      [2, 'c^$'],
      [3, 'a$'],
    ],
    log: ['0 wk/0: a1@0 free', '10 wk/0: b1@1 free', '20 wk/0: a2@0 c1@2 free'],
  },
  {
    rule: 'direct: a batch waits for the minimum utilization',
    config: 'direct { max_queue_delay_microseconds: 50000 minimum_slot_utilization: 0.75 }',
    events: [
      [0, 'a^$'],
      [10, 'b^$'],
      [20, 'c^$'],
    ],
    log: ['20 wk/0: a1@0 b1@1 c1@2 preferred'],
  },
  {
    rule: 'direct: or for the delay of the one that waits longest',
    config: 'direct { max_queue_delay_microseconds: 50000 minimum_slot_utilization: 0.75 }',
    events: [
      [0, 'a^$'],
      [10, 'b^$'],
    ],
    log: ['50 wk/0: a1@0 b1@1 delay'],
  },
  {
    rule: 'direct: without a minimum utilization the delay holds nothing up',
    config: 'direct { max_queue_delay_microseconds: 50000 }',
    events: [[0, 'a^$']],
    log: ['0 wk/0: a1@0 free'],
  },
  {
    rule: 'direct: without a delay the minimum utilization holds nothing up',
    config: 'direct { minimum_slot_utilization: 1 }',
    events: [[0, 'a^$']],
    log: ['0 wk/0: a1@0 free'],
  },
  {
    rule: 'oldest: those that may go for longest go first, one step of each sequence',
    config: 'oldest { max_candidate_sequences: 8 }',
    max_batch_size: 2,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'b'],
      [3, 'b$'],
      [4, 'c^$'],
      [5, 'a$'],
    ],
    log: ['0 wk/0: a1@0 free', '10 wk/0: b1@1 c1@2 full', '20 wk/0: a2@0 b2@1 full', '30 wk/0: b3@1 free'],
  },
  {
    rule: 'oldest: the delay is waited for, from when a step may go',
    config: 'oldest { max_candidate_sequences: 8 max_queue_delay_microseconds: 50000 }',
    run_ms: 100,
    events: [
      [0, 'a^'],
      [1, 'a$'],
      [10, 'b^$'],
    ],
    log: ['50 wk/0: a1@0 b1@1 delay', '200 wk/0: a2@0 delay'],
  },
  {
    rule: 'oldest: a preferred size goes at once',
    config: 'oldest { preferred_batch_size: 2 max_candidate_sequences: 8 max_queue_delay_microseconds: 50000 }',
    events: [
      [0, 'a^$'],
      [10, 'b^$'],
    ],
    log: ['10 wk/0: a1@0 b1@1 preferred'],
  },
];

describe.each([
  ['slots', SLOTS],
  ['strategies', STRATEGIES],
] as const)('%s', (_, timelines) => {
  test.each(timelines)('$rule', ({ log, ...given }) => {
    const played = playSequences(given);
    expect(played.log).toEqual(log);
    expect([played.scheduler.waiting, [...(played.scheduler.sessions ?? [])], played.scheduler.needsWake]).toEqual([
      0,
      [],
      false,
    ]);
  });
});

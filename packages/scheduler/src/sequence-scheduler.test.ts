import { describe, expect, test } from 'vitest';
import { queuedRequest } from './fixture-request.ts';
import { playSequences, type SequenceTimeline, sequenceScheduler } from './fixture-sequences.ts';
import type { QueuedRequest, ScheduleEvent } from './schedule.ts';

const IDLE = 'max_sequence_idle_microseconds: 100000';

const returned = (id: string, session: string, start = false, end = false) =>
  queuedRequest({ id, sequence: { session, start, end, replaces: undefined } });

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
      '100 closed a idle',
      '101 closed b idle',
      '102 closed c idle',
      '103 closed d idle',
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
    rule: 'direct: steps of another shape than that of the one which may go for longest wait for the next batch',
    config: 'direct { }',
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'b^$', { shapeKey: 'long' }],
      [2, 'c^$'],
      [3, 'a$'],
    ],
    log: ['0 wk/0: a1@0 free', '10 wk/0: b1@1 shape', '20 wk/0: a2@0 c1@2 free'],
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
    rule: 'direct: for which steps of all shapes count, also those that must wait for the next batch',
    config: 'direct { max_queue_delay_microseconds: 50000 minimum_slot_utilization: 0.5 }',
    run_ms: 1,
    events: [
      [0, 'a^$'],
      [10, 'b^$', { shapeKey: 'long' }],
    ],
    log: ['10 wk/0: a1@0 preferred', '60 wk/0: b1@1 delay'],
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

const ENDS: readonly SequenceTimeline[] = [
  {
    rule: 'a quiet sequence is closed once its idle time since its last arrival is over',
    config: `${IDLE} direct { }`,
    events: [
      [0, 'a^'],
      [60, 'a'],
    ],
    log: ['0 wk/0: a1@0 free', '60 wk/0: a2@0 free', '160 closed a idle'],
  },
  {
    rule: 'a step that comes before the timer has told keeps its sequence',
    config: `${IDLE} direct { }`,
    events: [
      [0, 'a^'],
      [100, 'a$'],
    ],
    log: ['0 wk/0: a1@0 free', '100 wk/0: a2@0 free'],
  },
  {
    rule: 'steps that wait or run are done first, then it is closed at once',
    config: `${IDLE} direct { }`,
    run_ms: 80,
    events: [
      [0, 'a^'],
      [1, 'a'],
    ],
    log: ['0 wk/0: a1@0 free', '80 wk/0: a2@0 free', '160 closed a idle'],
  },
  {
    rule: 'unless another came for it meanwhile',
    config: `${IDLE} direct { }`,
    run_ms: 150,
    events: [
      [0, 'a^'],
      [120, 'a$'],
    ],
    log: ['0 wk/0: a1@0 free', '150 wk/0: a2@0 free'],
  },
  {
    rule: 'where messages wait in a mailbox only up to where all has come, which is asked for again each second',
    config: `${IDLE} direct { }`,
    events: [
      [0, { type: 'heard', upToUs: 0 }],
      [1, 'a^'],
      [2, 'b^'],
      [500, 'b'],
      [600, { type: 'heard', upToUs: 100_000 }],
      [700, { type: 'heard', upToUs: 101_000 }],
      [1800, { type: 'heard', upToUs: 1_650_000 }],
    ],
    log: [
      '1 wk/0: a1@0 free',
      '2 wk/0: b1@1 free',
      '101 listen',
      '500 wk/0: b2@1 free',
      '700 closed a idle',
      '700 listen',
      '1700 listen',
      '1800 closed b idle',
    ],
  },
  {
    rule: 'nor while its owner has steps of it that wait; after those it is closed at once too',
    config: `${IDLE} direct { }`,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [50, { type: 'session-held', session: 'a', held: true }],
      [51, { type: 'session-held', session: 'b', held: true }],
      [150, 'b'],
      [151, { type: 'session-held', session: 'b', held: false }],
      [180, { type: 'session-held', session: 'a', held: false }],
    ],
    log: ['0 wk/0: a1@0 free', '1 wk/0: b1@1 free', '150 wk/0: b2@1 free', '180 closed a idle', '250 closed b idle'],
  },
  {
    rule: 'a sequence in the backlog is not idle; its time begins when it has a slot',
    config: `${IDLE} direct { }`,
    max_batch_size: 1,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [90, 'a'],
      [180, 'a$'],
      [270, 'b'],
    ],
    log: [
      '0 wk/0: a1@0 full',
      '90 wk/0: a2@0 full',
      '180 wk/0: a3@0 full',
      '180 wk/0: b1@0 full',
      '270 wk/0: b2@0 full',
      '370 closed b idle',
    ],
  },
  {
    rule: 'the slot of an idle sequence goes to the backlog',
    config: `${IDLE} direct { }`,
    max_batch_size: 1,
    events: [
      [0, 'a^'],
      [1, 'b^$'],
    ],
    log: ['0 wk/0: a1@0 full', '100 closed a idle', '100 wk/0: b1@0 full'],
  },
  {
    rule: 'in the backlog the earliest time-out of its steps ends all of a sequence',
    config: 'direct { }',
    max_batch_size: 1,
    events: [
      [0, 'a^'],
      [1, 'b^', { timeoutUs: 90_000 }],
      [2, 'b', { timeoutUs: 30_000 }],
      [3, 'b'],
      [4, 'c^$'],
      [50, 'a$'],
    ],
    log: [
      '0 wk/0: a1@0 full',
      '32 reject b1 UNAVAILABLE',
      '32 reject b2 UNAVAILABLE',
      '32 reject b3 UNAVAILABLE',
      '32 closed b timeout',
      '50 wk/0: a2@0 full',
      '50 wk/0: c1@0 full',
    ],
  },
  {
    rule: 'and of those that share its place',
    config: 'direct { }',
    max_batch_size: 1,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'c^', { replaces: 'b', timeoutUs: 30_000 }],
      [50, 'a$'],
    ],
    log: [
      '0 wk/0: a1@0 full',
      '32 reject b1 UNAVAILABLE',
      '32 closed b timeout',
      '32 reject c1 UNAVAILABLE',
      '32 closed c timeout',
      '50 wk/0: a2@0 full',
    ],
  },
  {
    rule: 'in a slot time-outs count for nothing, nor do those of jobs',
    config: 'direct { }',
    max_batch_size: 1,
    run_ms: 40,
    events: [
      [0, 'a^'],
      [1, 'a', { timeoutUs: 10_000 }],
      [2, 'b^$', { timeoutUs: 10_000, patient: true }],
      [41, 'a$'],
    ],
    log: ['0 wk/0: a1@0 full', '40 wk/0: a2@0 full', '80 wk/0: a3@0 full', '120 wk/0: b1@0 full'],
  },
  {
    rule: 'a session whose owner says that it is over leaves its slot and all that waits',
    config: 'direct { }',
    max_batch_size: 1,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'a'],
      [2, 'b^$'],
      [3, { type: 'session-over', session: 'a' }],
    ],
    log: ['0 wk/0: a1@0 full', '10 wk/0: b1@0 full'],
  },
  {
    rule: 'also in the backlog; a START that came for the same correlation id since is of another sequence',
    config: 'direct { }',
    max_batch_size: 1,
    events: [
      [0, 'a^'],
      [1, 'b^'],
      [2, 'c^$', { replaces: 'b' }],
      [3, { type: 'session-over', session: 'b' }],
      [4, 'a$'],
    ],
    log: ['0 wk/0: a1@0 full', '4 wk/0: a2@0 full', '4 wk/0: c1@0 full'],
  },
  {
    rule: 'one step more than may wait is refused, and its session lives on',
    config: 'direct { }',
    queue_max: 2,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'a'],
      [2, 'a$'],
      [3, 'a'],
    ],
    log: ['0 wk/0: a1@0 free', '3 reject a4 UNAVAILABLE', '10 wk/0: a2@0 free', '20 wk/0: a3@0 free'],
  },
];

const CHANGES: readonly SequenceTimeline[] = [
  {
    rule: 'a draining instance gets no new sequences, and its own go on',
    config: 'direct { }',
    max_batch_size: 1,
    instances: 2,
    events: [
      [0, 'a^'],
      [1, { type: 'instance-draining', instance: 'wk/0' }],
      [2, 'b^'],
      [3, 'c^$'],
      [4, 'a$'],
      [5, 'b$'],
    ],
    log: ['0 wk/0: a1@0 full', '2 wk/1: b1@0 full', '4 wk/0: a2@0 full', '5 wk/1: b2@0 full', '5 wk/1: c1@0 full'],
  },
  {
    rule: 'what has not begun on it goes elsewhere, also one that waits for a sequence there to end',
    config: 'direct { }',
    max_batch_size: 2,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'b^$'],
      [2, { type: 'instance-draining', instance: 'wk/0' }],
      [3, 'c^$', { replaces: 'a' }],
      [20, { type: 'instance-free', instance: 'wk/1' }],
    ],
    log: ['0 wk/0: a1@0 free', '20 wk/1: b1@0 c1@1 full'],
  },
  {
    rule: 'the sequences of a lost instance keep their slots; those of which nothing was sent go elsewhere, before others that came later',
    config: 'direct { }',
    max_batch_size: 2,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'b^$'],
      [2, 'c^$'],
      [3, { type: 'instance-lost', instance: 'wk/0' }],
      [4, 'd^$'],
      [5, 'a$'],
      [6, { type: 'instance-free', instance: 'wk/1' }],
      [40, { type: 'instance-free', instance: 'wk/0' }],
    ],
    log: ['0 wk/0: a1@0 free', '6 wk/1: b1@0 c1@1 full', '10 wk/0: a2@0 d1@1 full'],
  },
  {
    rule: 'a step that comes back is the head of its sequence again',
    config: 'direct { }',
    run_ms: 100,
    events: [
      [0, 'a^'],
      [100, 'a'],
      [101, 'a$'],
      [110, { type: 'returned', request: returned('a2', 'a') }],
      [111, { type: 'session-over', session: 'nobody' }],
    ],
    log: ['0 wk/0: a1@0 free', '100 wk/0: a2@0 free', '200 wk/0: a2@0 free', '300 wk/0: a3@0 free'],
  },
  {
    rule: 'a START that comes back from a lost instance goes elsewhere, with what waits behind it',
    config: 'direct { }',
    instances: 2,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'a$'],
      [2, { type: 'instance-lost', instance: 'wk/0' }],
      [3, { type: 'returned', request: returned('a1', 'a', true) }],
      [4, { type: 'time' }],
    ],
    log: ['0 wk/0: a1@0 free', '4 wk/1: a1@0 free', '14 wk/1: a2@0 free'],
  },
  {
    rule: 'a session of an earlier owner has the slot that its worker says, and its idle time begins then',
    config: `${IDLE} direct { }`,
    instances: 0,
    max_batch_size: 2,
    events: [
      [0, { type: 'bound', session: 'a', instance: 'wk/7', slot: 1 }],
      [1, { type: 'instance-free', instance: 'wk/7' }],
      [2, 'b^$'],
      [3, 'a'],
      [4, { type: 'bound', session: 'c', instance: 'wk/7', slot: 0 }],
    ],
    log: ['2 wk/7: b1@0 free', '3 wk/7: a1@1 free', '103 closed a idle', '104 closed c idle'],
  },
  {
    rule: 'one that waits here has it too, and whoever was to have it goes elsewhere',
    config: 'direct { }',
    instances: 0,
    max_batch_size: 1,
    events: [
      [0, 'a'],
      [1, 'b^$'],
      [2, { type: 'bound', session: 'b', instance: 'wk/0', slot: 0 }],
      [3, { type: 'bound', session: 'a', instance: 'wk/1', slot: 0 }],
      [4, { type: 'instance-free', instance: 'wk/0' }],
      [5, { type: 'instance-free', instance: 'wk/1' }],
      [6, 'a$'],
    ],
    log: ['4 wk/0: b1@0 full', '5 wk/1: a1@0 full', '6 wk/1: a2@0 full'],
  },
  {
    rule: 'and the slot that it was to have goes to the backlog',
    config: 'direct { }',
    max_batch_size: 2,
    run_ms: 10,
    events: [
      [0, 'a^$'],
      [1, 'b'],
      [2, 'c^$'],
      [3, { type: 'bound', session: 'b', instance: 'wk/9', slot: 0 }],
      [20, { type: 'session-over', session: 'b' }],
    ],
    log: ['0 wk/0: a1@0 free', '10 wk/0: c1@1 free'],
  },
  {
    rule: 'what goes elsewhere goes at once where an instance is free, and in the order of the STARTs',
    config: 'direct { }',
    max_batch_size: 2,
    instances: 2,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [1, 'z^'],
      [12, 'a'],
      [13, 'x^$'],
      [14, 'y^$', { replaces: 'a' }],
      [15, { type: 'session-over', session: 'a' }],
      [16, { type: 'instance-lost', instance: 'wk/0' }],
      [40, 'z$'],
    ],
    log: [
      '0 wk/0: a1@0 free',
      '1 wk/1: z1@0 free',
      '12 wk/0: a2@0 free',
      '16 wk/1: x1@1 free',
      '22 wk/0: y1@0 free',
      '40 wk/1: z2@0 free',
    ],
  },
  {
    rule: 'oldest: a step that comes back goes before the others',
    config: 'oldest { max_candidate_sequences: 4 }',
    max_batch_size: 1,
    run_ms: 10,
    events: [
      [0, 'a^'],
      [5, 'a$'],
      [15, 'c^$'],
      [16, { type: 'returned', request: returned('a2', 'a', false, true) }],
    ],
    log: ['0 wk/0: a1@0 full', '10 wk/0: a2@0 full', '20 wk/0: a2@0 full', '30 wk/0: c1@1 full'],
  },
  {
    rule: 'while the queue drains nobody is waited for: direct',
    config: 'direct { max_queue_delay_microseconds: 50000 minimum_slot_utilization: 1 }',
    events: [
      [0, 'a^$'],
      [10, { type: 'draining' }],
      [20, 'b^$'],
    ],
    log: ['10 wk/0: a1@0 drain', '20 wk/0: b1@0 drain'],
  },
  {
    rule: 'while the queue drains nobody is waited for: oldest',
    config: 'oldest { max_candidate_sequences: 4 max_queue_delay_microseconds: 50000 }',
    events: [
      [0, 'a^$'],
      [10, { type: 'draining' }],
      [20, 'b^$'],
    ],
    log: ['10 wk/0: a1@0 drain', '20 wk/0: b1@0 drain'],
  },
];

describe.each([
  ['slots', SLOTS],
  ['strategies', STRATEGIES],
  ['ends', ENDS],
  ['changes', CHANGES],
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

describe('when the owner is told', () => {
  const step = (id: string, session: string, more: Partial<QueuedRequest> = {}): ScheduleEvent => ({
    type: 'arrived',
    request: queuedRequest({ id, sequence: { session, start: true, end: false, replaces: undefined }, ...more }),
  });
  const free = (instance: string): ScheduleEvent => ({ type: 'instance-free', instance });

  test('that an instance is lost, nothing is sent in the same step: others of its worker may be lost as well', () => {
    const scheduler = sequenceScheduler('direct { }', 2);
    for (const event of [free('wk/0'), free('wk/1'), step('a1', 'a'), step('z1', 'z'), step('x1', 'x')]) {
      scheduler.step(event, 0);
    }
    scheduler.step(free('wk/1'), 1);
    expect(scheduler.step({ type: 'instance-lost', instance: 'wk/0' }, 5)).toEqual([{ type: 'wake', atUs: 5 }]);
    expect(scheduler.step({ type: 'time' }, 5)).toMatchObject([{ type: 'dispatch', instance: 'wk/1', slots: [1] }, {}]);
  });

  test('late of a free slot, what has waited for too long in the backlog does not get it', () => {
    const scheduler = sequenceScheduler('direct { }', 1);
    for (const event of [free('wk/0'), step('a1', 'a'), step('b1', 'b', { timeoutUs: 30_000 })])
      scheduler.step(event, 0);
    expect(scheduler.step({ type: 'step-over', id: 'a1', ended: true }, 40_000)).toMatchObject([
      { type: 'reject', request: { id: 'b1' } },
      { type: 'closed', session: 'b', why: 'timeout' },
    ]);
  });

  test.each<[string, ScheduleEvent, string[]]>([
    ['its session is over', { type: 'session-over', session: 'c' }, []],
    ['its instance drains', { type: 'instance-draining', instance: 'wk/0' }, ['c1']],
  ])('oldest: a step that has just got its slot does not go there where %s in the same step', (_what, event, sent) => {
    const scheduler = sequenceScheduler(`${IDLE} oldest { max_candidate_sequences: 1 }`, 1);
    const over: ScheduleEvent = { type: 'step-over', id: 'a1', ended: false };
    for (const first of [free('wk/0'), step('a1', 'a'), over, free('wk/0'), step('c1', 'c')]) scheduler.step(first, 0);
    // Only now `a` is seen to be idle, so that `c` has its slot.
    expect(scheduler.step(event, 150_000)).toMatchObject([{ type: 'closed', session: 'a' }]);
    const later = scheduler.step(free('wk/1'), 150_000);
    const batches = later.flatMap((decision) => (decision.type === 'dispatch' ? decision.batch : []));
    expect(batches.map(({ id }) => id)).toEqual(sent);
  });

  test('a request that is no step of a sequence cannot be taken', () => {
    const request = queuedRequest({ id: 'r' });
    expect(() => sequenceScheduler('direct { }').step({ type: 'arrived', request }, 0)).toThrow('is no step');
  });
});

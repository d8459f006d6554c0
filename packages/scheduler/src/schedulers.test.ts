import { parseModelConfig } from '@nereid/config';
import { describe, expect, test } from 'vitest';
import { queuedRequest } from './fixture-request.ts';
import type { Scheduler } from './schedule.ts';
import { batchesTogether, createScheduler, executionKind, preservesOrdering } from './schedulers.ts';

const config = (text: string) => parseModelConfig(`name: "m" max_batch_size: 4 ${text}`, 'config.pbtxt');

const request = (id: string) => queuedRequest({ id });

/** Rows of the batches that two free instances get when 5 requests wait. */
function batchSizes(scheduler: Scheduler): number[] {
  for (let index = 0; index < 5; index++) scheduler.step({ type: 'arrived', request: request(`r${index}`) }, 0);
  return ['a', 'b'].flatMap((instance) =>
    scheduler
      .step({ type: 'instance-free', instance }, 1_000_000)
      .map((decision) => (decision.type === 'dispatch' ? decision.batch.length : 0)),
  );
}

test.each([
  ['', 'single', false, false],
  ['dynamic_batching { preserve_ordering: true }', 'batches', true, true],
  ['sequence_batching { direct { } }', 'sequences', true, false],
  ['sequence_batching { oldest { } }', 'sequences', true, false],
  ['sequence_batching { oldest { preserve_ordering: true } }', 'sequences', true, true],
])(
  '%s: what an instance holds, whether requests share a batch, whether answers are kept in order',
  (text, ...facts) => {
    const asked = config(text);
    const kind = executionKind(asked, { decoupled: false, rate_limit: false });
    expect([kind, batchesTogether(asked), preservesOrdering(asked)]).toEqual(facts);
  },
);

describe('createScheduler', () => {
  test.each([
    ['without dynamic_batching each request runs alone', '', [1, 1]],
    ['dynamic_batching {} fills up to max_batch_size', 'dynamic_batching {}', [4, 1]],
    ['preferred sizes are honoured', 'dynamic_batching { preferred_batch_size: [ 2 ] }', [2, 2]],
    [
      'the delay is in microseconds',
      'dynamic_batching { max_queue_delay_microseconds: 1000001 preferred_batch_size: [ 4 ] }',
      [4, 0],
    ],
    ['max_queue_size bounds the queue', 'dynamic_batching { default_queue_policy { max_queue_size: 3 } }', [3]],
    ['without batch dimension each runs alone', 'dynamic_batching {} max_batch_size: 0', [1, 1]],
  ])('%s', (_rule, text, sizes) => {
    const whole = text.includes('max_batch_size')
      ? parseModelConfig(`name: "m" ${text}`, 'config.pbtxt')
      : config(text);
    expect(batchSizes(createScheduler(whole))).toEqual(sizes);
  });

  test.each([
    ['max_batch_size alone, which a config without any is completed to, makes full batches', '[ 4 ]', ['full']],
    ['others make preferred ones', '[ 2, 4 ]', ['preferred']],
  ])('preferred sizes: %s', (_rule, sizes, reasons) => {
    const scheduler = createScheduler(config(`dynamic_batching { preferred_batch_size: ${sizes} }`));
    for (let index = 0; index < 5; index++) scheduler.step({ type: 'arrived', request: request(`r${index}`) }, 0);
    const decisions = scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    expect(decisions.flatMap((decision) => (decision.type === 'dispatch' ? [decision.reason] : []))).toEqual(reasons);
  });

  test('without max_queue_size the bound is the one given', () => {
    const scheduler = createScheduler(config('dynamic_batching {}'), { queue_max: 2, places_ahead: 0 });
    expect(batchSizes(scheduler)).toEqual([2]);
  });

  const eager = 'parameters { key: "nereid.eager_batch" value: { string_value: "true" } }';
  const delayed = 'dynamic_batching { max_queue_delay_microseconds: 100 }';

  test.each([
    ['nothing without dynamic batching', '', false, false],
    ['who was answered, without a delay', 'dynamic_batching { }', true, false],
    ['nothing with a delay, which says how long to wait', delayed, false, false],
    ['who was answered and what runs, where a delay may be cut short', `${delayed} ${eager}`, true, true],
    ['who was answered alone, where there is no delay to cut', `dynamic_batching { } ${eager}`, true, false],
  ])('wants to be told of %s', (_rule, text, answered, running) => {
    const { wants = { answered: false, running: false } } = createScheduler(config(text));
    expect(wants).toMatchObject({ answered, running });
  });

  test.each([
    ['refuses all where no instance is ever scheduled', '[ { passive: true }, { passive: true } ]', 'reject'],
    ['runs where one is', '[ { passive: true }, { } ]', 'dispatch'],
  ])('%s', (_rule, groups, decision) => {
    const scheduler = createScheduler(config(`instance_group ${groups} dynamic_batching { }`));
    scheduler.step({ type: 'instance-free', instance: 'a' }, 0);
    expect(scheduler.step({ type: 'arrived', request: request('r') }, 0).map(({ type }) => type)).toEqual([decision]);
  });

  test.each([['ensemble_scheduling', 'ensemble_scheduling {}']])(
    '%s is refused by name, not ignored',
    (field, text) => {
      expect(() => createScheduler(config(text))).toThrow(
        expect.objectContaining({ code: 'UNSUPPORTED', field, message: expect.stringContaining(field) }),
      );
    },
  );
});

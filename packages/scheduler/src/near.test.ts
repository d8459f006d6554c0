import { describe, expect, test } from 'vitest';
import { createDefaultScheduler } from './default-scheduler.ts';
import { createDynamicScheduler } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { NO_POLICIES } from './queue-policy.ts';
import type { Decision, Scheduler } from './schedule.ts';
import { createOldestSteps } from './sequence-oldest.ts';
import { createSequenceScheduler } from './sequence-scheduler.ts';

const queue_max = 100;
const dynamic = (places_ahead = 0) =>
  createDynamicScheduler({
    rows_max: 4,
    preferred: [],
    delay_us: 0,
    places_ahead,
    queue_max,
    policies: NO_POLICIES,
  });

function free(scheduler: Scheduler, ...instances: string[]): string[] {
  return instances.flatMap((instance) => sentTo(scheduler.step({ type: 'instance-free', instance }, 0)));
}

function ask(scheduler: Scheduler, id: string, near?: string): string[] {
  return sentTo(scheduler.step({ type: 'arrived', request: queuedRequest({ id, near }) }, 0));
}

function sentTo(decisions: readonly Decision[]): string[] {
  return decisions.flatMap((decision) => (decision.type === 'dispatch' ? [decision.instance] : []));
}

describe.each([
  ['default', () => createDefaultScheduler({ queue_max })],
  ['dynamic', dynamic],
] as const)('%s: the worker that keeps a tensor of the request', (_name, create) => {
  test('gets it, if it is as free as the others', () => {
    const scheduler = create();
    free(scheduler, 'wk-1/0', 'wk-2/0', 'wk-2/1', 'wk-3/0');
    expect(ask(scheduler, 'a', 'wk-3')).toEqual(['wk-3/0']);
    expect(ask(scheduler, 'b', 'wk-2')).toEqual(['wk-2/0']);
    expect(ask(scheduler, 'c', 'wk-2')).toEqual(['wk-2/1']);
  });

  test('does not, while it is busier than another', () => {
    const scheduler = create();
    free(scheduler, 'wk-1/0', 'wk-1/0', 'wk-2/0');
    expect(ask(scheduler, 'a', 'wk-2')).toEqual(['wk-1/0']);
  });

  test('is not waited for', () => {
    const scheduler = create();
    free(scheduler, 'wk-1/0');
    expect(ask(scheduler, 'a', 'wk-2')).toEqual(['wk-1/0']);
  });

  test('whose name begins as another one does, is not that one', () => {
    const scheduler = create();
    free(scheduler, 'wk-10/0', 'wk-1/0');
    expect(ask(scheduler, 'a', 'wk-1')).toEqual(['wk-1/0']);
  });

  test('of several that are near, the one used longest ago', () => {
    const scheduler = create();
    free(scheduler, 'wk-1/0', 'wk-1/1', 'wk-2/0');
    expect(ask(scheduler, 'a', 'wk-1')).toEqual(['wk-1/0']);
    free(scheduler, 'wk-1/0');
    expect(ask(scheduler, 'b', 'wk-1')).toEqual(['wk-1/1']);
  });
});

test('a batch goes to the worker of its first request', () => {
  const scheduler = dynamic();
  free(scheduler, 'wk-1/0', 'wk-2/0', 'wk-3/0');
  for (const [index, near] of ['wk-3', 'wk-2', undefined].entries()) {
    scheduler.step({ type: 'returned', request: queuedRequest({ id: `${index}`, arrivedUs: index, near }) }, 10);
  }
  const [sent] = scheduler.step({ type: 'time' }, 10);
  expect(sent).toMatchObject({ type: 'dispatch', instance: 'wk-3/0', batch: [{ id: '0' }, { id: '1' }, { id: '2' }] });
});

describe('a sequence', () => {
  const create = () =>
    createSequenceScheduler({
      slots: 2,
      idle_us: 1_000_000,
      wantsAnswered: false,
      queue_max,
      createReadySteps: () => createOldestSteps({ rows_max: 2, preferred: [], delay_us: 0 }),
    });
  const step = (scheduler: Scheduler, id: string, session: string, start: boolean, near?: string) =>
    sentTo(
      scheduler.step(
        {
          type: 'arrived',
          request: queuedRequest({ id, near, sequence: { session, start, end: false, replaces: undefined } }),
        },
        0,
      ),
    );

  test('begins near, if the slot there is as low as others', () => {
    const scheduler = create();
    free(scheduler, 'wk-1/0', 'wk-2/0');
    expect(step(scheduler, 'a', 's', true, 'wk-2')).toEqual(['wk-2/0']);
    expect(step(scheduler, 'b', 't', true, 'wk-2')).toEqual(['wk-1/0']);
  });

  test('keeps its slot, whatever is near later', () => {
    const scheduler = create();
    free(scheduler, 'wk-1/0', 'wk-2/0');
    expect(step(scheduler, 'a', 's', true, 'wk-2')).toEqual(['wk-2/0']);
    scheduler.step({ type: 'step-over', id: 'a', ended: false }, 0);
    free(scheduler, 'wk-2/0');
    expect(step(scheduler, 'b', 's', false, 'wk-1')).toEqual(['wk-2/0']);
  });
});

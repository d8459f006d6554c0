import { expect, test } from 'vitest';
import type { Instance } from './instance.ts';
import { type BatchSettlement, failBatch, type InstanceBatch } from './instance-batch.ts';
import { limitInstance } from './limited-instance.ts';

const GONE = { code: 'UNAVAILABLE', message: 'gone' } as const;

/** A limited instance over one that is ready until it is stopped and ends when told, with what its gate was asked. */
function limited(keepsState = false) {
  const asked: string[] = [];
  let ready = true;
  let run = () => {};
  let end = () => {};
  let changed = () => {};
  const below: Instance = {
    start: async () => null,
    execute: (batch) => failBatch(batch, false, GONE),
    cancel: () => {},
    stop() {
      ready = false;
      return new Promise((resolve) => {
        end = resolve;
      });
    },
    abandon: () => {},
    describe: () => ({ index: 0, name: 'm_0', ready, passive: false, batches: [] }),
    failure: null,
    unsettled: 0,
    liveCarriers: 0,
  };
  const instance = limitInstance(
    (told) => {
      changed = told;
      return below;
    },
    {
      open(opened) {
        run = opened;
      },
      stage: () => void asked.push('stage'),
      unstage: () => void asked.push('unstage'),
      ended: (staged) => void asked.push(`ended, staged: ${staged}`),
      leave: () => void asked.push('leave'),
    },
    () => {},
    keepsState,
  );
  return {
    instance,
    asked,
    run: () => run(),
    end: () => end(),
    carrierEnds() {
      ready = false;
      changed();
    },
  };
}

function newBatch() {
  let settle: (settlement: BatchSettlement) => void = () => {};
  const settled = new Promise<BatchSettlement>((resolve) => {
    settle = resolve;
  });
  const batch: InstanceBatch = { batch: 1, requests: [], receivedNs: 0, cancelled: undefined, settle };
  return { batch, settled };
}

test('what its stop no longer waits for asks for no turn, however long the instance takes to end', async () => {
  const { instance, asked, end } = limited();
  const { batch, settled } = newBatch();
  instance.execute(batch);
  const stopped = instance.stop();
  instance.abandon();
  expect((await settled).executed).toBe(false);
  expect(asked).toEqual(['stage', 'unstage']);
  end();
  await stopped;
  expect(asked).toEqual(['stage', 'unstage', 'leave']);
});

test('a turn that comes when nothing waits any more is given back', () => {
  const { asked, run } = limited();
  run();
  expect(asked).toEqual(['ended, staged: false']);
});

test.each([
  ['waits for the next carrier', false, undefined],
  ['of steps of sequences ends: their state is gone', true, GONE],
])('what waits for its turn when the carrier ends %s', async (_, keepsState, expected) => {
  const { instance, carrierEnds, end } = limited(keepsState);
  const { batch, settled } = newBatch();
  let why: unknown;
  void settled.then(({ executed }) => {
    why = executed ? undefined : GONE;
  });
  instance.execute(batch);
  carrierEnds();
  await new Promise((resolve) => setImmediate(resolve));
  expect([why, instance.unsettled]).toEqual([expected, keepsState ? 0 : 1]);
  const stopped = instance.stop();
  end();
  await stopped;
});

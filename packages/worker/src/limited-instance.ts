/**
 * An instance whose executions need resources of the rate limiter: it takes a batch from its queue once these are its
 * own, and gives them back when the batch has ended, however it did; a stream's when it has ended.
 *
 * States: *idle*; *staged* while a batch waits and the instance below is ready; *running* from when its turn came until
 * the batch is settled. While the instance below is not ready nothing is staged, so nothing is held for it.
 */
import { CANCELLED } from '@nereid/protocol';
import type { Instance } from './instance.ts';
import { failBatch, type InstanceBatch, isAbandoned } from './instance-batch.ts';
import type { RateGate } from './rate-limits.ts';

/**
 * `create` makes the instance below, with what it is to call when it has changed. With `keepsState` a batch is for the
 * carrier that is there, and ends where that has ended.
 */
export function limitInstance(
  create: (changed: () => void) => Instance,
  gate: RateGate,
  changed: () => void,
  keepsState: boolean,
): Instance {
  const queue: InstanceBatch[] = [];
  let state: 'idle' | 'staged' | 'running' = 'idle';
  /** As it came, and as the instance below has it. */
  let running: { readonly batch: InstanceBatch; readonly given: InstanceBatch } | undefined;
  let drained: () => void = () => {};
  let abandoned = false;
  let stopping: Promise<void> | undefined;

  const instance = create(() => {
    review();
    changed();
  });

  const mayRun = () => queue.length > 0 && instance.describe().ready;

  /** Whatever waits ends as the instance below ends it: with why it does not run. */
  const failQueue = () => {
    for (const batch of queue.splice(0)) instance.execute(batch);
  };

  /** Brings the state in line with the queue and the instance below. */
  const review = () => {
    if (instance.failure !== null) {
      failQueue();
      gate.leave();
    } else if (keepsState && !instance.describe().ready) failQueue();
    if (state === 'running') return;
    if (mayRun()) {
      if (state === 'staged') return;
      state = 'staged';
      gate.stage();
    } else {
      if (state === 'staged') {
        state = 'idle';
        gate.unstage();
      }
      drained();
    }
  };

  const run = () => {
    const batch = queue.shift();
    if (batch === undefined) {
      // It was taken away meanwhile.
      gate.ended(false);
      return;
    }
    state = 'running';
    const given = withRelease(batch, () => {
      running = undefined;
      // Where its thread ended the instance below knows of that only after its batches are settled.
      queueMicrotask(ended);
    });
    running = { batch, given };
    instance.execute(given);
  };

  const ended = () => {
    const again = mayRun();
    state = again ? 'staged' : 'idle';
    gate.ended(again);
    review();
  };

  const stop = async () => {
    if (mayRun() && !abandoned) {
      await new Promise<void>((resolve) => {
        drained = resolve;
      });
    }
    const stopped = instance.stop();
    failQueue();
    // Nothing is held for what was failed.
    review();
    await stopped;
    gate.leave();
  };

  gate.open(run);

  return {
    start: () => instance.start(),
    execute(batch) {
      if (instance.failure !== null) {
        instance.execute(batch);
        return;
      }
      queue.push(batch);
      review();
    },
    cancel(batch, position) {
      if (running?.batch === batch) {
        instance.cancel(running.given, position);
        return;
      }
      const place = queue.indexOf(batch);
      if (place < 0 || !isAbandoned(batch)) return;
      queue.splice(place, 1);
      failBatch(batch, false, CANCELLED);
      review();
    },
    stop() {
      stopping ??= stop();
      return stopping;
    },
    abandon() {
      abandoned = true;
      drained();
      instance.abandon();
    },
    describe() {
      const description = instance.describe();
      return { ...description, batches: [...description.batches, ...queue.map(({ batch }) => batch)] };
    },
    get failure() {
      return instance.failure;
    },
    get unsettled() {
      return instance.unsettled + queue.length;
    },
    get liveCarriers() {
      return instance.liveCarriers;
    },
  };
}

/** The batch, with the same marks of what is cancelled; `release` is called once it is settled. */
function withRelease(batch: InstanceBatch, release: () => void): InstanceBatch {
  return {
    ...batch,
    get cancelled() {
      return batch.cancelled;
    },
    set cancelled(cancelled) {
      batch.cancelled = cancelled;
    },
    settle(settlement) {
      batch.settle(settlement);
      release();
    },
  };
}

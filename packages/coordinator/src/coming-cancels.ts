import { type CancelJobMessage, isJobCancelled } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { JobQueues } from '@nereid/transport';

/**
 * Cancels of jobs that this owner has taken in Redis and does not hold yet: the answer of that is still under way, or
 * the job's tensors are being read. What was read of the job then may be from before it was marked.
 */
export interface ComingCancels {
  /** `arrived`: ends the job where it is held by now, and says whether it was. */
  expect(message: CancelJobMessage, arrived: () => boolean): void;
  /** The job is here; true where it is cancelled. */
  takes(model: string, id: string): boolean;
}

export interface ComingCancelsParts {
  readonly queues: Pick<JobQueues, 'find'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** One more takes the place of the oldest. */
const EXPECTED_MAX = 1_024;
/** Longer than any reading of tensors; a job that comes later says itself that it is cancelled. */
const EXPECTED_US = 60_000_000;

export function createComingCancels({ queues, clock, log }: ComingCancelsParts): ComingCancels {
  /** Until when each is expected. */
  const expected = new Map<string, number>();
  const keyOf = (model: string, id: string) => `${model}/${id}`;

  const remember = (key: string) => {
    const [oldest] = expected.keys();
    if (expected.size >= EXPECTED_MAX && oldest !== undefined) expected.delete(oldest);
    expected.set(key, clock.nowUs() + EXPECTED_US);
  };

  return {
    expect({ model, id }, arrived) {
      const look = async () => {
        const job = await queues.find(model, id);
        // It has ended meanwhile, and may have been retried.
        if (job?.state !== 'running' || !isJobCancelled(job.data)) return;
        if (!arrived()) remember(keyOf(model, id));
      };
      look().catch((error) => log.debug({ err: error, model, job: id }, 'a cancelled job was not looked up'));
    },
    takes(model, id) {
      const untilUs = expected.get(keyOf(model, id));
      expected.delete(keyOf(model, id));
      return untilUs !== undefined && clock.nowUs() < untilUs;
    },
  };
}

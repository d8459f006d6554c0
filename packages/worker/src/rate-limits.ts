import { type ExpandedInstance, isRateLimited, type ResourceLimit } from '@nereid/config';
import { NereidError, type ProcessId } from '@nereid/protocol';
import { createRateLimiter, type LimitedKey, type RateEvent } from '@nereid/scheduler';
import type { SharedResources } from '@nereid/transport';

/** An instance's way to the resources of its executions. */
export interface RateGate {
  /** From now on `run` is called, once for each time that it is staged, when it is to run; perhaps inside `stage`. */
  open(run: () => void): void;
  /** A batch waits and may run. */
  stage(): void;
  /** It is not to run any more, unless it runs already. */
  unstage(): void;
  /** The execution is over; `staged`: the next batch waits and may run. */
  ended(staged: boolean): void;
  /** Gives back all and forgets the instance. Idempotent. */
  leave(): void;
}

/** The rate limiter of a worker, over all its instances (`--rate-limit=execution_count`). */
export interface RateLimits {
  /**
   * The gates of those instances that need resources, by their index. Throws INVALID_ARG in Triton's
   * words where one needs more than there is, or one resource is both global and of a device.
   */
  join(instances: readonly ExpandedInstance[]): ReadonlyMap<number, RateGate>;
  /** A process came or went, or this worker has another id. */
  processesChanged(): void;
  /** Gives all back, also what it still holds. */
  close(): Promise<void>;
}

export interface RateLimitsParts {
  /** `--rate-limit-resource`. */
  readonly resources: readonly ResourceLimit[];
  readonly shared: SharedResources;
  /** The worker's present id. */
  readonly id: () => ProcessId;
}

export function createRateLimits({ resources, shared, id }: RateLimitsParts): RateLimits {
  const limiter = createRateLimiter(resources);
  const runs = new Map<LimitedKey, () => void>();
  const events: RateEvent[] = [];
  let keys = 0;
  let told = limiter.shared;
  let isStepping = false;

  const tell = () => {
    if (told === limiter.shared) return;
    told = limiter.shared;
    member.tell(told);
  };

  /** What runs may end at once, inside this: it is seen to when the step is over. */
  const step = (event: RateEvent) => {
    events.push(event);
    if (isStepping) return;
    isStepping = true;
    for (let next = events.shift(); next !== undefined; next = events.shift()) {
      for (const key of limiter.step(next)) runs.get(key)?.();
    }
    isStepping = false;
    tell();
  };

  const member = shared.open({ id, granted: (wish) => step({ type: 'granted', wish }) });

  const gate = (instance: LimitedKey): RateGate => ({
    open: (run) => void runs.set(instance, run),
    stage: () => step({ type: 'staged', instance }),
    unstage: () => step({ type: 'unstaged', instance }),
    ended: (staged) => step({ type: 'ended', instance, staged }),
    leave() {
      runs.delete(instance);
      step({ type: 'removed', instance });
    },
  });

  return {
    join(instances) {
      const limited = instances.filter(isRateLimited).map((instance) => ({ instance, key: ++keys }));
      const error = limiter.add(
        limited.map(({ key, instance: { device, rateLimiter } }) => ({
          key,
          device: device.id,
          priority: rateLimiter?.priority ?? 0,
          resources: rateLimiter?.resources ?? [],
        })),
      );
      if (error !== undefined) throw new NereidError(error.code, error.message, { field: 'rate_limiter' });
      tell();
      return new Map(limited.map(({ instance, key }) => [instance.index, gate(key)]));
    },
    processesChanged: () => member.look(),
    close: () => member.close(),
  };
}

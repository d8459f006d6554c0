import type { Clock, Timer } from '@nereid/runtime';
import { allVersions, type OwnedModel } from './owned-model.ts';
import type { OwnedRequest } from './version-queue.ts';

export interface UnheldWaitsParts {
  readonly clock: Clock;
  /** How long a request of the model may wait for a worker to hold it. */
  readonly waitUs: (model: OwnedModel) => number;
  /** The model of that name, while requests wait for a worker to hold it. */
  readonly waits: (name: string) => OwnedModel | undefined;
  /** Why no worker holds it yet. */
  readonly why: (model: OwnedModel) => string;
  /** Some of its requests have waited for too long, and are answered. */
  readonly expired: (model: OwnedModel) => void;
}

/** Bounds how long requests wait for a worker to hold their model. Jobs wait for as long as it takes. */
export interface UnheldWaits {
  /** Requests of the model may wait from now on. */
  watch(model: OwnedModel): void;
  forget(name: string): void;
  close(): void;
}

const AGAIN_US = 1_000_000;

export function createUnheldWaits({ clock, waitUs, waits, why, expired }: UnheldWaitsParts): UnheldWaits {
  const timers = new Map<string, Timer>();

  const expire = (model: OwnedModel) => {
    const us = waitUs(model);
    const bound = clock.nowUs() - us;
    const message = `model '${model.name}' was not loaded within the ${us / 1000} ms that a request may wait for it: ${why(model)}`;
    const isOver = ({ arrivedUs, job }: OwnedRequest) => job === '' && arrivedUs <= bound;
    for (const { queue } of allVersions(model)) queue?.failQueued({ code: 'UNAVAILABLE', message }, isOver);
    expired(model);
  };

  const watch = ({ name }: OwnedModel, fromUs = 0) => {
    const model = timers.has(name) ? undefined : waits(name);
    const arrivedUs = model === undefined ? undefined : firstWaiting(model);
    if (model === undefined || arrivedUs === undefined) return;
    const timer = clock.at(Math.max(arrivedUs + waitUs(model), fromUs), () => {
      timers.delete(name);
      const present = waits(name);
      if (present === undefined) return;
      expire(present);
      // Steps of a sequence that has a slot stay.
      watch(present, clock.nowUs() + AGAIN_US);
    });
    timers.set(name, timer);
  };

  return {
    watch,
    forget(name) {
      timers.get(name)?.cancel();
      timers.delete(name);
    },
    close() {
      for (const timer of timers.values()) timer.cancel();
      timers.clear();
    },
  };
}

/** When the first request came that waits with a bound; undefined where none does. */
function firstWaiting(model: OwnedModel): number | undefined {
  let first: number | undefined;
  for (const { queue } of allVersions(model)) {
    for (const { running, request } of queue?.entries ?? []) {
      if (running || request.job !== '') continue;
      first = Math.min(first ?? request.arrivedUs, request.arrivedUs);
      break;
    }
  }
  return first;
}

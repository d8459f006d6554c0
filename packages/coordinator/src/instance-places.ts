import type { InstanceDescription, ProcessId } from '@nereid/protocol';
import type { InstanceKey } from '@nereid/scheduler';

/** An instance of a worker, as one version's queue sees it. */
export interface PlacedInstance {
  readonly worker: ProcessId;
  readonly index: number;
  /** As its worker names it. */
  readonly name: string;
  /** Its worker says that it is ready: only then does the scheduler have its free places. */
  known: boolean;
  /** Batches of this queue out on it. */
  batches: number;
  /** Batches of an earlier owner that it still holds. */
  others: number;
  /** Free places that the scheduler has for it. */
  places: number;
  /** The scheduler knows that its worker drains. */
  draining: boolean;
}

export interface InstancePlacesParts {
  /** Batches that an instance holds at a time. */
  readonly depth: () => number;
  /** Gives the scheduler one more free place; it may be taken at once. */
  readonly free: (instance: InstanceKey) => void;
  /** Takes the instance with all its free places from the scheduler. */
  readonly lost: (instance: InstanceKey) => void;
  /** No new sequences are for the instance. */
  readonly draining: (instance: InstanceKey) => void;
}

/**
 * The places of instances: what each holds and how much more the scheduler may give it.
 *
 * Batches in flight outlive that an instance is known: the worker of a dead instance still ends them.
 */
export interface InstancePlaces {
  /** A batch takes a free place. Undefined for an instance that is not there. */
  take(instance: InstanceKey): PlacedInstance | undefined;
  /** A batch of this queue has left the instance; `offer` gives the place away again. */
  leave(instance: InstanceKey): void;
  /** A batch of an earlier owner has left the instance. */
  otherLeft(instance: InstanceKey): void;
  /** Gives the scheduler the places that the instance has by its depth. */
  offer(instance: InstanceKey): void;
  /** Instances that run nothing and have a free place. */
  spare(): readonly InstanceKey[];
  /** As `offer` for each instance, after the depth has changed. */
  offerAll(): void;
  /**
   * All ready instances that a worker has, with what they hold; `isOurs` tells the batches of this queue. Those that
   * it had while it drained are new where it no longer does.
   */
  describe(
    worker: ProcessId,
    described: readonly InstanceDescription[],
    isOurs: (batch: number, instance: InstanceKey) => boolean,
    draining: boolean,
  ): void;
  /** The worker's instances drain until it is described again. */
  drain(worker: ProcessId): void;
  /** Nothing more goes to this worker until it is described again. */
  withdraw(worker: ProcessId): void;
  clear(): void;
}

export function createInstancePlaces({
  depth,
  free,
  lost,
  draining: tellDraining,
}: InstancePlacesParts): InstancePlaces {
  const instances = new Map<InstanceKey, PlacedInstance>();

  const offer = (key: InstanceKey) => {
    const instance = instances.get(key);
    const most = depth();
    while (instance?.known === true && instance.batches + instance.others + instance.places < most) {
      instance.places++;
      free(key);
    }
  };

  const lose = (key: InstanceKey, instance: PlacedInstance) => {
    if (!instance.known) return;
    instance.known = false;
    instance.draining = false;
    instance.places = 0;
    if (instance.batches === 0) instances.delete(key);
    lost(key);
  };

  /** More of an earlier owner's batches turned up than there were places left: some were given twice. */
  const recount = (key: InstanceKey, instance: PlacedInstance, others: number) => {
    const more = others > instance.others;
    instance.others = others;
    if (!more || instance.places === 0 || instance.batches + others + instance.places <= depth()) return;
    instance.places = 0;
    lost(key);
  };

  const drainOne = (key: InstanceKey, instance: PlacedInstance) => {
    if (!instance.known || instance.draining) return;
    instance.draining = true;
    tellDraining(key);
  };

  return {
    take(key) {
      const instance = instances.get(key);
      if (instance === undefined) return undefined;
      instance.batches++;
      instance.places--;
      return instance;
    },
    leave(key) {
      const instance = instances.get(key);
      if (instance === undefined) return;
      instance.batches--;
      if (!instance.known && instance.batches === 0) instances.delete(key);
    },
    otherLeft(key) {
      const instance = instances.get(key);
      if (instance !== undefined && instance.others > 0) instance.others--;
      offer(key);
    },
    offer,
    spare() {
      const idle: InstanceKey[] = [];
      for (const [key, { known, draining, batches, others, places }] of instances) {
        if (known && !draining && batches + others === 0 && places > 0) idle.push(key);
      }
      return idle;
    },
    offerAll() {
      for (const key of [...instances.keys()]) offer(key);
    },
    describe(worker, described, isOurs, draining) {
      const ready = new Map<InstanceKey, InstanceDescription>();
      for (const instance of described) {
        if (instance.ready && !instance.passive) ready.set(`${worker}/${instance.index}`, instance);
      }
      for (const [key, instance] of instances) {
        if (instance.worker !== worker) continue;
        const drains = draining || ready.get(key)?.leaving === true;
        if (!ready.has(key) || (instance.draining && !drains)) lose(key, instance);
      }
      for (const [key, { index, name, batches, leaving }] of ready) {
        const instance = instances.get(key) ?? newlyPlaced(worker, index, name);
        instances.set(key, instance);
        recount(key, instance, batches.filter((batch) => !isOurs(batch, key)).length);
        instance.known = true;
        if (draining || leaving === true) drainOne(key, instance);
      }
      for (const key of ready.keys()) offer(key);
    },
    drain(worker) {
      for (const [key, instance] of instances) if (instance.worker === worker) drainOne(key, instance);
    },
    withdraw(worker) {
      for (const [key, instance] of instances) if (instance.worker === worker) lose(key, instance);
    },
    clear() {
      for (const [key, instance] of instances) lose(key, instance);
      instances.clear();
    },
  };
}

function newlyPlaced(worker: ProcessId, index: number, name: string): PlacedInstance {
  return { worker, index, name, known: false, batches: 0, others: 0, places: 0, draining: false };
}

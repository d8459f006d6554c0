import { type InstanceKey, workerOf } from './schedule.ts';

/** The free places of all instances. */
export interface InstancePool {
  /** Places over all instances. */
  readonly free: number;
  /** Of the instance with the most. */
  readonly mostFree: number;
  add(instance: InstanceKey): void;
  /** Forgets the instance with all its places. */
  drop(instance: InstanceKey): void;
  /**
   * Takes a place of the instance with the most free ones; among equals of one on the worker `near`, then of the one
   * used longest ago, then of the one known longest. So one worker's queue never fills while another is idle, whatever
   * is kept where.
   */
  take(near?: string): InstanceKey | undefined;
  /** Takes a place of that one; false where it has none. */
  takeOf(instance: InstanceKey): boolean;
}

interface Places {
  readonly worker: string;
  free: number;
  usedAt: number;
}

export function createInstancePool(): InstancePool {
  const places = new Map<InstanceKey, Places>();
  let free = 0;
  let uses = 0;
  const use = (place: Places) => {
    place.free--;
    place.usedAt = ++uses;
    free--;
  };
  return {
    get free() {
      return free;
    },
    get mostFree() {
      let most = 0;
      for (const place of places.values()) most = Math.max(most, place.free);
      return most;
    },
    add(instance) {
      const known = places.get(instance);
      if (known === undefined) places.set(instance, { worker: workerOf(instance), free: 1, usedAt: 0 });
      else known.free++;
      free++;
    },
    drop(instance) {
      free -= places.get(instance)?.free ?? 0;
      places.delete(instance);
    },
    take(near) {
      let best: InstanceKey | undefined;
      let bestPlace: Places | undefined;
      for (const [instance, place] of places) {
        if (place.free === 0) continue;
        const better =
          bestPlace === undefined ||
          place.free > bestPlace.free ||
          (place.free === bestPlace.free && isBefore(place, bestPlace, near));
        if (better) {
          best = instance;
          bestPlace = place;
        }
      }
      if (bestPlace !== undefined) use(bestPlace);
      return best;
    },
    takeOf(instance) {
      const place = places.get(instance);
      if (place === undefined || place.free === 0) return false;
      use(place);
      return true;
    },
  };
}

function isBefore(place: Places, best: Places, near: string | undefined): boolean {
  if (near !== undefined && place.worker !== best.worker) {
    if (place.worker === near) return true;
    if (best.worker === near) return false;
  }
  return place.usedAt < best.usedAt;
}

/**
 * The last things that happened, in records that are used again: none is made once the ring is full, so that noting
 * costs a few stores. Of those that go, some are worth keeping for longer: they go round once more in a ring of their own.
 */
export interface RecordRing<R> {
  /** A record to be filled at once, in place of the oldest; what it held is void. */
  next(): R;
  /** The newest first, then those that were kept. */
  newest(): Generator<R>;
}

export interface RecordRingOptions<R> {
  readonly make: () => R;
  readonly recent_max: number;
  /** Of those that are worth it. */
  readonly kept_max: number;
  readonly isKept: (record: R) => boolean;
}

export function createRecordRing<R>({ make, recent_max, kept_max, isKept }: RecordRingOptions<R>): RecordRing<R> {
  const recent = createLap<R>(recent_max);
  const kept = createLap<R>(kept_max);

  return {
    next() {
      const oldest = recent.oldest;
      if (oldest === undefined) return recent.put(make());
      if (!isKept(oldest)) return recent.put(oldest);
      const freed = kept.oldest ?? make();
      kept.put(oldest);
      return recent.put(freed);
    },
    *newest() {
      yield* recent.newest();
      yield* kept.newest();
    },
  };
}

/** So many places, filled in turn. */
function createLap<R>(places_max: number) {
  const places: R[] = [];
  let at = 0;

  return {
    /** What the next one takes the place of; undefined while there is room. */
    get oldest(): R | undefined {
      return places.length < places_max ? undefined : places[at];
    },
    put(record: R): R {
      places[at] = record;
      at = at + 1 === places_max ? 0 : at + 1;
      return record;
    },
    *newest(): Generator<R> {
      for (let back = 1; back <= places.length; back++) {
        const record = places[(at - back + places_max) % places_max];
        if (record !== undefined) yield record;
      }
    },
  };
}

import type { CachedMessage } from '@nereid/protocol';
import type { Directory, Mailbox } from '@nereid/transport';
import type { ModelFound } from '../model-lookup.ts';

/** How long each part of a request took that was answered without a run of its own, microseconds with fractions. */
export interface HitTimes {
  readonly requestUs: number;
  /** For an equal request to be answered. */
  readonly queueUs: number;
  readonly lookupUs: number;
}

/** What a caller's response cache tells the owners of models, gathered over a turn. */
export interface CachedCounts {
  hit(found: ModelFound, times: HitTimes): void;
  /** `missUs`: look-up and insertion. */
  miss(found: ModelFound, missUs: number): void;
  /** Sends what has gathered: before its owner is asked what it has counted, and at the end. */
  tell(): void;
}

interface Sum {
  ns: number;
  us: number;
}

interface Gathered {
  readonly model: string;
  readonly version: string;
  hits: number;
  readonly hitRequest: Sum;
  readonly hitQueue: Sum;
  readonly hitLookup: Sum;
  misses: number;
  readonly miss: Sum;
}

export function createCachedCounts(
  mailbox: Pick<Mailbox, 'send'>,
  directory: Pick<Directory<unknown>, 'owner'>,
): CachedCounts {
  const gathered = new Map<string, Gathered>();

  const tell = () => {
    for (const { model, ...counts } of gathered.values()) {
      const epoch = directory.owner(model);
      // Nobody counts for a model without an owner.
      if (epoch === undefined) continue;
      mailbox.send(epoch.owner, { kind: 'cached', model, epoch, ...counts } satisfies CachedMessage);
    }
    gathered.clear();
  };

  const countsOf = ({ record: { name: model }, version }: ModelFound): Gathered => {
    const key = `${version} ${model}`;
    let counts = gathered.get(key);
    if (counts !== undefined) return counts;
    if (gathered.size === 0) setImmediate(tell);
    const sum = () => ({ ns: 0, us: 0 });
    counts = {
      model,
      version,
      hits: 0,
      hitRequest: sum(),
      hitQueue: sum(),
      hitLookup: sum(),
      misses: 0,
      miss: sum(),
    };
    gathered.set(key, counts);
    return counts;
  };

  return {
    hit(found, { requestUs, queueUs, lookupUs }) {
      const counts = countsOf(found);
      counts.hits++;
      add(counts.hitRequest, requestUs);
      add(counts.hitQueue, queueUs);
      add(counts.hitLookup, lookupUs);
    },
    miss(found, missUs) {
      const counts = countsOf(found);
      counts.misses++;
      add(counts.miss, missUs);
    },
    tell,
  };
}

function add(sum: Sum, us: number): void {
  sum.ns += Math.trunc(us * 1000);
  sum.us += Math.trunc(us);
}

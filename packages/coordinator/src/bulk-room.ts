import { LIMITS } from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import { type Clock, type Log, pause } from '@nereid/runtime';
import type { BulkStore } from '@nereid/transport';

/** Above this share of `maxmemory` no line is begun: the rest is for the results of those that run, and for those of jobs. */
const BEGIN_SHARE = 0.9;
const LOOK_MS = 500;

/** Whether Redis has room for more results of a batch. */
export interface BulkRoom {
  /** Waits until there is some, and gives undefined; why the batch ends where that takes too long. Never rejects. */
  refusal(): Promise<ErrorInfo | undefined>;
}

export interface BulkRoomParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<BulkStore, 'memory'>;
  readonly batch: string;
  /** Nobody waits any more once it is aborted. */
  readonly signal: AbortSignal;
}

/** Looks at Redis' memory a few times a second, as long as somebody asks. */
export function createBulkRoom({ clock, log, store, batch, signal }: BulkRoomParts): BulkRoom {
  let lookedUs = Number.NEGATIVE_INFINITY;

  const share = async (): Promise<number> => {
    lookedUs = clock.nowUs();
    try {
      const memory = await store.memory();
      return memory === undefined ? 0 : memory.used / memory.max;
    } catch {
      // Redis is away, which reading or writing lines will tell.
      return 0;
    }
  };

  return {
    async refusal() {
      if (clock.nowUs() - lookedUs < LOOK_MS * 1000) return undefined;
      const untilUs = clock.nowUs() + LIMITS.bulk_full_wait_ms * 1000;
      for (let waited = false; !signal.aborted; waited = true) {
        const used = await share();
        if (used <= BEGIN_SHARE) return undefined;
        if (!waited) log.warn({ batch, used }, 'a batch waits for room in Redis');
        if (clock.nowUs() >= untilUs) return tooFull(used);
        await pause(clock, LOOK_MS, signal);
      }
      return undefined;
    },
  };
}

function tooFull(used: number): ErrorInfo {
  const minutes = LIMITS.bulk_full_wait_ms / 60_000;
  return {
    code: 'UNAVAILABLE',
    message: `Redis had no room for more results for ${minutes} minutes (it uses ${Math.floor(used * 100)} % of its maxmemory): send the lines without a result again, with fewer outputs or more maxmemory`,
  };
}

import type { Clock, Log, Timer } from '@nereid/runtime';
import { pause } from '@nereid/runtime';
import type { BulkState, BulkStore, LineResult } from '@nereid/transport';

/** One call writes so many at most, and waits so long for others to go with the first. */
const WRITE_MAX = 64;
const WRITE_BYTES_MAX = 1_048_576;
const GATHER_MS = 20;
const RETRY_MS = 500;
/** Results that wait for Redis; no more lines are begun at it. */
const HELD_MAX = 256;
const HELD_BYTES_MAX = 16_777_216;

export interface BulkResults {
  add(result: LineResult): void;
  /** As many wait as may. */
  readonly full: boolean;
  /** Resolves once all that was added is written, or given up. */
  flushed(): Promise<void>;
}

export interface BulkResultsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<BulkStore, 'settle'>;
  readonly batch: string;
  /** Nobody waits for Redis any more: what it does not take at once is given up, and its lines run again. */
  readonly signal: AbortSignal;
  /** The batch's state after a write of these. */
  readonly written: (state: BulkState | undefined, results: readonly LineResult[]) => void;
}

/** Writes the results of a batch, some at a time, again until Redis has them: of a line that has one nothing changes. */
export function createBulkResults(parts: BulkResultsParts): BulkResults {
  const { clock, log, store, batch, signal, written } = parts;
  const waiting: LineResult[] = [];
  let bytes = 0;
  let gathering: Timer | undefined;
  let writing: Promise<void> | undefined;

  const next = (): readonly LineResult[] => {
    let size = 0;
    let count = 0;
    for (const { text } of waiting) {
      if (count === WRITE_MAX || (count > 0 && size + text.length > WRITE_BYTES_MAX)) break;
      size += text.length;
      count++;
    }
    bytes -= size;
    return waiting.splice(0, count);
  };

  const write = async (results: readonly LineResult[]): Promise<void> => {
    for (;;) {
      try {
        written(await store.settle(batch, results), results);
        return;
      } catch (error) {
        log.warn({ err: error, batch }, 'results of a batch not written yet');
        if (signal.aborted) return;
        await pause(clock, RETRY_MS, signal);
      }
    }
  };

  const writeAll = async () => {
    while (waiting.length > 0) await write(next());
    writing = undefined;
  };

  const begin = () => {
    gathering?.cancel();
    gathering = undefined;
    writing ??= writeAll();
    return writing;
  };

  return {
    add(result) {
      waiting.push(result);
      bytes += result.text.length;
      if (waiting.length >= WRITE_MAX) void begin();
      else if (writing === undefined) gathering ??= clock.at(clock.nowUs() + GATHER_MS * 1000, () => void begin());
    },
    get full() {
      return waiting.length >= HELD_MAX || bytes >= HELD_BYTES_MAX;
    },
    async flushed() {
      if (waiting.length > 0 || writing !== undefined) await begin();
    },
  };
}

import type { Log } from '@nereid/runtime';
import type { BulkChunk, BulkStore, LineResult } from '@nereid/transport';

/** Chunks of a batch of which some lines have no result yet. */
export interface BulkChunks {
  begun(number: number, chunk: BulkChunk): void;
  settled(results: readonly LineResult[]): void;
}

export interface BulkChunksParts {
  readonly log: Log;
  readonly store: Pick<BulkStore, 'clear'>;
  readonly batch: string;
}

interface Open {
  readonly from: number;
  readonly end: number;
  /** Lines without a result. */
  left: number;
}

/** Gives the memory of lines back as soon as all of their chunk have a result, so that results have its room. */
export function createBulkChunks({ log, store, batch }: BulkChunksParts): BulkChunks {
  const open = new Map<number, Open>();

  const look = (number: number, { left }: Open) => {
    if (left > 0) return;
    open.delete(number);
    // Who goes on after this one clears it then.
    store.clear(batch, number).catch((error) => log.debug({ err: error, batch }, 'lines that are over not removed'));
  };

  return {
    begun(number, { from, lines, done }) {
      const chunk: Open = { from, end: from + lines.length, left: done.filter((isDone) => !isDone).length };
      if (lines.length === 0) return;
      open.set(number, chunk);
      look(number, chunk);
    },
    settled(results) {
      for (const { line } of results) {
        for (const [number, chunk] of open) {
          if (line < chunk.from || line >= chunk.end) continue;
          chunk.left--;
          look(number, chunk);
        }
      }
    },
  };
}

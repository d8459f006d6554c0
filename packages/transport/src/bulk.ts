import type { ErrorInfo } from '@nereid/protocol';
import type { RedisMemory } from './redis-memory.ts';

/**
 * Bulk work outlives its senders: a *batch* is a file of requests for one model, a line each, in Redis with its record.
 * Its record is *uploading* until every line is there, which nobody sees; *waiting* until an owner of the model has the
 * first result of it; *running* until each line has one; then *completed*. It ends earlier as *cancelled*, *expired* or,
 * where there is no room for its results, *failed*, with the results that there are by then. Whoever ends it removes its
 * lines in the same step; no result comes after. Before, a chunk's lines go once each of them has its result.
 *
 * A line has one result, the first that is written. Who runs lines after another's death goes on with those that have
 * none, so a line may be executed twice.
 */

export const BULK_ENDS = ['completed', 'cancelled', 'expired', 'failed'] as const;
export type BulkEnd = (typeof BULK_ENDS)[number];
export type BulkState = 'uploading' | 'waiting' | 'running' | BulkEnd;

/** Times are wall-clock milliseconds. */
export interface BulkRecord {
  /** `<model>~<ULID>`, as clients have it. */
  readonly id: string;
  readonly model: string;
  /** '' for the model's latest. */
  readonly version: string;
  readonly state: BulkState;
  readonly lines: number;
  readonly completed: number;
  readonly failed: number;
  readonly createdMs: number;
  readonly startedMs: number | undefined;
  readonly finishedMs: number | undefined;
  /** Lines that have no result by then get none; 0 for no end. */
  readonly deadlineMs: number;
  /** Its results are kept so long after its end. */
  readonly ttlS: number;
  /** How often a line is tried that fails. */
  readonly attempts: number;
  /** Why it failed. */
  readonly error: Pick<ErrorInfo, 'code' | 'message'> | undefined;
}

export type NewBulk = Pick<BulkRecord, 'id' | 'model' | 'version' | 'createdMs' | 'deadlineMs' | 'ttlS' | 'attempts'>;

/** Lines that were put down together. */
export interface BulkChunk {
  /** Number of the first one, from 0. */
  readonly from: number;
  readonly lines: readonly string[];
  /** By position: it has its result. */
  readonly done: readonly boolean[];
}

export interface LineResult {
  readonly line: number;
  readonly ok: boolean;
  /** JSON. */
  readonly text: string;
}

/** `full`: Redis is out of memory. */
export type Put = 'put' | 'gone' | 'full';

/** All methods reject with UNAVAILABLE where Redis does not answer; each may be repeated then. */
export interface BulkStore {
  /** Begins an upload, which is forgotten where nothing is put for ten minutes. */
  open(batch: NewBulk): Promise<Put>;
  /** The chunk of that number, from 0 without gaps; `from` is the number of its first line. */
  put(id: string, chunk: number, from: number, lines: readonly string[]): Promise<Put>;
  /** All lines are there. Resolves once owners see it; undefined where the upload was forgotten. */
  commit(id: string, lines: number): Promise<BulkRecord | undefined>;
  find(id: string): Promise<BulkRecord | undefined>;
  /** Batches of a model, the newest first; `after` is what the page before told as `next`; a page may be empty before the last. */
  page(
    model: string,
    after: string,
    limit: number,
  ): Promise<{ readonly batches: readonly BulkRecord[]; readonly next: string }>;
  /** Ids of all that are not over, the oldest first; some may be over or gone. */
  active(): Promise<readonly string[]>;
  /** It is over or gone. */
  forgetActive(id: string): Promise<void>;
  chunk(id: string, chunk: number): Promise<BulkChunk | undefined>;
  /** Writes the results of lines that have none; the last one ends the batch. Its state then; undefined where it is gone. */
  settle(id: string, results: readonly LineResult[]): Promise<BulkState | undefined>;
  /** Ends it, if it is not over. Its state then; undefined where it is gone. */
  end(id: string, how: BulkEnd, error?: BulkRecord['error']): Promise<BulkState | undefined>;
  /** Each line of the chunk has its result: it has none from now on. */
  clear(id: string, chunk: number): Promise<void>;
  /** Results of so many lines from that one on. */
  results(id: string, from: number, count: number): Promise<readonly LineResult[]>;
  /** Everything of a batch that is over, or of an upload. */
  remove(id: string): Promise<void>;
  /** See JobQueues. */
  memory(): Promise<RedisMemory | undefined>;
  close(): void;
}

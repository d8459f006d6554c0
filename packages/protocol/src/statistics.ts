/**
 * What has been counted of a model version, as Triton's statistics extension parts it (extension_statistics.md). Owners
 * count, gateways ask them and the doors write it in their forms.
 */

/** How often, and how long all of it took; whole nanoseconds, exact up to 2^53 of them. */
export interface DurationStatistics {
  readonly count: number;
  readonly ns: number;
}

/** Of requests. Each request of a batch adds the whole of the batch's compute phases. */
export interface InferenceStatistics {
  readonly success: DurationStatistics;
  readonly fail: DurationStatistics;
  readonly queue: DurationStatistics;
  readonly computeInput: DurationStatistics;
  readonly computeInfer: DurationStatistics;
  readonly computeOutput: DurationStatistics;
  readonly cacheHit: DurationStatistics;
  readonly cacheMiss: DurationStatistics;
}

/** Of executions with so many rows. */
export interface BatchStatistics {
  readonly batchSize: number;
  readonly computeInput: DurationStatistics;
  readonly computeInfer: DurationStatistics;
  readonly computeOutput: DurationStatistics;
}

/** Of the answers at one position in the streams of a decoupled model. */
export interface ResponseStatistics {
  readonly computeInfer: DurationStatistics;
  readonly computeOutput: DurationStatistics;
  readonly success: DurationStatistics;
  readonly fail: DurationStatistics;
  /** Streams that ended here with nothing more to say. */
  readonly emptyResponse: DurationStatistics;
  readonly cancel: DurationStatistics;
}

/** Executions of batches that were closed for one reason. */
export interface CloseStatistics {
  /** A `CloseReason` of the owner's scheduler. */
  readonly reason: string;
  /** How many had so many rows, ascending by rows. */
  readonly sizes: readonly { readonly rows: number; readonly count: number }[];
}

/** What waits at one priority level. */
export interface LevelStatistics {
  /** 1 is the highest; 0 where all wait in one. */
  readonly level: number;
  readonly waiting: number;
  /** Of those: past their time-out, behind all others of their level and above. */
  readonly delayed: number;
}

/** What a version's queue holds now, and the batches that it has formed. */
export interface QueueStatistics {
  /** Requests in no batch yet. */
  readonly waiting: number;
  /** Requests in batches that workers hold. */
  readonly running: number;
  /** Accepted and not yet executing: waiting here, or in a worker behind another batch. */
  readonly pending: number;
  /** How long the oldest waiting request has waited, whole microseconds; 0 where none waits. */
  readonly oldestUs: number;
  /** Those in which somebody waits, from the highest on, 256 at most; empty where the queue has no levels and delays nothing. */
  readonly levels: readonly LevelStatistics[];
  readonly closes: readonly CloseStatistics[];
}

export interface VersionStatistics {
  readonly name: string;
  readonly version: string;
  /** Of the last execution's end, wall clock, milliseconds since the epoch; 0 for none. */
  readonly lastInferenceMs: number;
  /** Rows of successful requests. */
  readonly inferenceCount: number;
  /** Failed ones too. */
  readonly executionCount: number;
  readonly inference: InferenceStatistics;
  /** By position, from 0; empty for a model that is not decoupled. */
  readonly responses: readonly ResponseStatistics[];
  /** Ascending by size. */
  readonly batches: readonly BatchStatistics[];
  /** Absent where its owner is of an earlier build. */
  readonly queue?: QueueStatistics;
}

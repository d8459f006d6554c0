/** Where recordings are kept (docs/replay.md). */
import type { ProcessId, RecordedStep, Recording, RecordingKind, RecordingState } from '@nereid/protocol';

/** What a recording is of; said with each of its steps. */
export interface RecordingHead {
  /** As `recordingId` makes it. */
  readonly id: string;
  readonly model: string;
  readonly kind: RecordingKind;
}

/** A step for a recording. */
export interface NewStep extends RecordingHead {
  /**
   * A step 0 begins the recording, anew where it has steps: another worker has begun the sequence before, and no step of
   * it took effect. Any other is kept where it is the next one.
   */
  readonly step: RecordedStep;
  /** What the recording is once it has this step. */
  readonly state: RecordingState;
}

/** The end of a recording that no step of its own tells. */
export interface NewEnd extends RecordingHead {
  readonly state: Exclude<RecordingState, 'open'>;
  /** Whose it was: what another worker has begun anew goes on. */
  readonly worker: ProcessId;
}

/** Writes recordings. Nobody waits for it longer than a moment: what Redis does not take then is not recorded. */
export interface JournalWriter {
  /**
   * Records steps, of one model and in their order. Resolves once they are in Redis, or will not be; never rejects. A
   * recording that lacks a step is ended as a `gap`. Data of the steps may change once it has resolved.
   */
  append(steps: readonly NewStep[]): Promise<void>;
  /**
   * As `append`, for who wants no more than that the death of this process loses none of them: undefined where they are
   * on their way to Redis already, as they mostly are.
   */
  send(steps: readonly NewStep[]): Promise<void> | undefined;
  /** Ends recordings that are open. Resolves as `append` does; one that Redis did not hear is told again. */
  end(ends: readonly NewEnd[]): Promise<void>;
  /**
   * No later step of it is kept: it is capped, has a gap, or was removed. So its steps need not be made; a step 0 begins
   * it anew all the same.
   */
  isOver(id: string): boolean;
  /** Steps that were not recorded, since Redis was away, full or slow. */
  readonly dropped: number;
  close(): void;
}

export interface RecordingQuery {
  readonly model: string;
  /** From 1. */
  readonly limit: number;
  /** `next` of the page before; '' for the first page. */
  readonly after: string;
}

/** Reads recordings. Rejects with UNAVAILABLE where Redis does not answer. */
export interface JournalReader {
  /** Names of the models that may have recordings, in order. */
  models(): Promise<readonly string[]>;
  /** Of one model, the newest first by when they began or were put; `next` goes into `after`, '' at the end. */
  list(query: RecordingQuery): Promise<{ readonly recordings: readonly Recording[]; readonly next: string }>;
  find(id: string): Promise<Recording | undefined>;
  /** Steps from `from` on, `limit` at most, with the data of their tensors that are kept; none where there is no such recording. */
  steps(id: string, from: number, limit: number): Promise<readonly RecordedStep[]>;
  /** False where there is none. */
  remove(id: string): Promise<boolean>;
  /**
   * Keeps a recording that came as a file, under the id given. Rejects with UNAVAILABLE where Redis is full, INVALID_ARG
   * where it is larger than one may be.
   */
  put(recording: Recording, steps: AsyncIterable<RecordedStep> | Iterable<RecordedStep>): Promise<Recording>;
}

/** Bounds of what is kept; names as in `--journal-config`. */
export interface JournalBounds {
  /** Of one recording. */
  readonly steps: number;
  readonly recording_bytes: number;
  /** Of one model: beyond them the oldest recordings go. */
  readonly recordings: number;
  readonly bytes: number;
  /** Seconds since its last step after which a recording goes. */
  readonly age_s: number;
}

export interface JournalStore extends JournalReader, JournalWriter {}

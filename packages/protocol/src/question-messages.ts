/** What gateways ask owners of models beside requests, and what these tell them. */
import type { ErrorInfo } from './error.ts';
import type { ExplainedMessage, ExplainMessage } from './explained.ts';
import type { ListedSequence } from './listed-sequence.ts';
import type { ModelMessage } from './message.ts';
import type { VersionStatistics } from './statistics.ts';

export type QuestionMessage =
  | CountMessage
  | CountedMessage
  | ListMessage
  | EvictMessage
  | CancelJobMessage
  | ListedMessage
  | ChangeMessage
  | ChangedMessage
  | PlaceMessage
  | PlacedMessage
  | ExplainMessage
  | ExplainedMessage;

/** gateway → owner: tell me what you have counted of these versions of the model. */
export interface CountMessage extends ModelMessage {
  readonly kind: 'count';
  /** `{gateway id}:c{n}`, of all copies to one owner. */
  readonly id: string;
  readonly versions: readonly string[];
}

/** owner → gateway: answers `count`; a version that it does not serve is left out. */
export interface CountedMessage {
  readonly kind: 'counted';
  readonly model: string;
  readonly id: string;
  readonly versions: readonly VersionStatistics[];
}

/** gateway → owner: tell me of the sequences that you keep. */
export interface ListMessage extends ModelMessage {
  readonly kind: 'list';
  /** As of `count`. */
  readonly id: string;
  /** Of those behind this session, by the text of their sessions; '' for all. */
  readonly after: string;
  /** How many to tell at most. */
  readonly limit: number;
}

/** gateway → owner: end this sequence; `listed` answers with what it was, or with nothing where there is none. */
export interface EvictMessage extends ModelMessage {
  readonly kind: 'evict';
  /** As of `count`. */
  readonly id: string;
  readonly session: string;
}

/** owner → gateway: answers `list` and `evict`. */
export interface ListedMessage {
  readonly kind: 'listed';
  readonly model: string;
  readonly id: string;
  readonly sequences: readonly ListedSequence[];
  /** There are more behind the last. */
  readonly more: boolean;
}

/**
 * gateway → owner: the job is not wanted any more, as its data say. To whoever does not hold it this says nothing, and
 * one that is lost does no harm: the job then runs to its end, or its next owner reads the mark.
 */
export interface CancelJobMessage {
  readonly kind: 'cancel_job';
  readonly model: string;
  /** BullMQ's. */
  readonly id: string;
}

/** What may be done with a model. */
export const MODEL_ACTIONS = ['load', 'unload'] as const;

/**
 * gateway → owner, or the coordinator that the model falls to: load or unload it. Sent again, to whoever it is then, until
 * `changed` says that it is over.
 */
export interface ChangeMessage {
  readonly kind: 'change';
  readonly model: string;
  /** `{gateway id}:m{n}`, of all its copies. */
  readonly id: string;
  readonly action: (typeof MODEL_ACTIONS)[number];
  /** What a load takes in place of the repository's files, as config's override-ref has it; '' for nothing. */
  readonly override: string;
  /** An unload takes the models of an ensemble along that nothing else wants. */
  readonly dependents: boolean;
}

/** coordinator → gateway: answers `change`, once it has heard it and once it is over. */
export interface ChangedMessage {
  readonly kind: 'changed';
  readonly model: string;
  readonly id: string;
  readonly over: boolean;
  /** Why it could not be done. */
  readonly error: ErrorInfo | null;
  /** Of a load that is over what is served, as the model's record has it; else ''. */
  readonly contentHash: string;
}

export const PLACE_ACTIONS = ['show', 'pin', 'unpin', 'prefetch'] as const;

/** gateway → owner: tell me where the model is held and why, after doing what is asked. */
export interface PlaceMessage extends ModelMessage {
  readonly kind: 'place';
  /** As of `count`. */
  readonly id: string;
  readonly action: (typeof PLACE_ACTIONS)[number];
}

/** owner → gateway: answers `place`. */
export interface PlacedMessage {
  readonly kind: 'placed';
  readonly model: string;
  readonly id: string;
  /** As docs/placement.md has it, in JSON: it is for people, and no process reads it. */
  readonly report: string;
}

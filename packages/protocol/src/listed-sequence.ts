import type { ProcessId } from './message.ts';

/** Where a sequence is kept: the instance's position among its worker's of the version, its name, and the slot. */
export interface SequencePlace {
  readonly worker: ProcessId;
  readonly instance: number;
  /** '' where its worker has not said. */
  readonly instanceName: string;
  readonly slot: number;
}

/** A sequence as its owner tells of it to whoever looks. */
export interface ListedSequence {
  readonly version: string;
  /** Id of its START request. */
  readonly session: string;
  readonly correlationId: bigint | string;
  /** Null where it waits for a slot. */
  readonly place: SequencePlace | null;
  /** Its place among those that wait for a slot, from 0; -1 where it has one. */
  readonly backlog: number;
  /** Applied so far. */
  readonly steps: number;
  /** Steps that wait at the owner. */
  readonly waiting: number;
  /** Since its last step came, whole microseconds. */
  readonly idleUs: number;
  /** Since it began, or since its present owner learned of it, whole microseconds. */
  readonly ageUs: number;
}

import type { ProcessId } from '@nereid/protocol';

/** How much of each resource, by its name. */
export type ResourceCounts = ReadonlyMap<string, number>;

/** All that one worker has to say of the resources that workers share. */
export interface ResourceClaim {
  /** How much there is of each, as far as it knows: the greatest word of all workers counts. */
  readonly limits: ResourceCounts;
  readonly held: ResourceCounts;
  /** What it waits for, all or nothing; empty for nothing. */
  readonly wanted: ResourceCounts;
  /** Another number for each wish, from 1 on. */
  readonly wish: number;
}

/** One worker's part in them. */
export interface ResourceMember {
  /** Replaces what was told before. It is told at once, and again until it is heard. */
  tell(claim: ResourceClaim): void;
  /** A process came or went: what a wish waits for may be free. */
  look(): void;
  /** Gives back what is held, as far as that can be told. */
  close(): Promise<void>;
}

export interface ResourceMemberParts {
  /** The worker's present process id, by which it is known whether it lives. */
  readonly id: () => ProcessId;
  /** All that the wish asked for is this worker's from now on, until a claim does not say so any more. */
  readonly granted: (wish: number) => void;
}

/**
 * Resources of which there is one stock for all workers (`rate_limiter.resources.global`).
 *
 * A worker tells the whole of what it holds and waits for, at every change and now and then; that is the
 * truth, and nobody keeps anything that it does not say. What a worker holds that is no longer registered is
 * free. Wishes are granted as a whole, first come first served: one that cannot be granted yet keeps those
 * behind it from all that it waits for, and from nothing else. So none starves, and since no worker holds
 * what it has only wished for no two can wait for each other.
 */
export interface SharedResources {
  open(parts: ResourceMemberParts): ResourceMember;
}

export const NO_RESOURCES: ResourceCounts = new Map();

/** A claim of which nobody has to hear. */
export function isEmptyClaim({ limits, held, wanted }: ResourceClaim): boolean {
  return limits.size + held.size + wanted.size === 0;
}

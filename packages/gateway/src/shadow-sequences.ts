/** Which sequences of aliases are copied to another version, and under which ids: the rule, without effects. */
import type { AliasRoute } from '@nereid/caller';
import type { InferRequest } from '@nereid/protocol';

/** A sequence of copies, of one of an alias. */
export interface ShadowSequence {
  readonly key: string;
  readonly model: string;
  readonly version: string;
  /** Its own, since the model may know the client's at that version; models see the client's. */
  readonly correlationId: bigint | string;
  /** Of its steps: what cancels those that are on their way. */
  readonly leaving: Set<() => void>;
  /** Of the copy of its START, by which its owner knows it; '' until that is sent. */
  session: string;
  /** What the client's next step is to say as its number; undefined where it numbers none. */
  next: number | undefined;
  /** Its END was copied. */
  ended: boolean;
}

export type ShadowStep =
  /** Copied, as a step of that sequence. */
  | { readonly type: 'copy'; readonly sequence: ShadowSequence }
  /** A copy of a step that was copied, asked for again. */
  | { readonly type: 'known' }
  /** Not one of a sequence that is copied. */
  | { readonly type: 'other' }
  /** It cannot be copied whole: this step came too late, or others before it have not come by here. */
  | { readonly type: 'broken'; readonly sequence: ShadowSequence };

/**
 * Sequences are copied whole, from the START that comes by this gateway, or not at all. One of which steps are missing
 * here, as its numbers tell, is broken off.
 */
export interface ShadowSequences {
  /** `opens`: makes the sequence of a START that is to be copied; undefined where it is not. */
  step(route: AliasRoute, request: InferRequest, opens: () => ShadowSequence | undefined): ShadowStep;
  forget(sequence: ShadowSequence): void;
  /** The one that began first. */
  readonly oldest: ShadowSequence | undefined;
  readonly size: number;
  all(): Iterable<ShadowSequence>;
}

export function createShadowSequences(): ShadowSequences {
  const sequences = new Map<string, ShadowSequence>();

  const forget = (sequence: ShadowSequence) => {
    if (sequences.get(sequence.key) === sequence) sequences.delete(sequence.key);
  };

  return {
    step({ key }, { sequenceStart, sequenceEnd, sequenceStep }, opens) {
      const known = sequences.get(key);
      if (known !== undefined && sequenceStep !== undefined && known.next !== undefined) {
        if (sequenceStep < known.next) return { type: 'known' };
        if (sequenceStep > known.next) return { type: 'broken', sequence: known };
      } else if (known !== undefined && sequenceStart) return { type: 'broken', sequence: known };
      const sequence = known ?? (sequenceStart ? opens() : undefined);
      if (sequence === undefined) return { type: 'other' };
      sequences.set(key, sequence);
      if (sequence.next !== undefined) sequence.next++;
      sequence.ended = sequenceEnd;
      if (sequenceEnd) forget(sequence);
      return { type: 'copy', sequence };
    },
    forget,
    get oldest() {
      const [first] = sequences.values();
      return first;
    },
    get size() {
      return sequences.size;
    },
    all: () => [...sequences.values()],
  };
}

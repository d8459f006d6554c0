import type { ExpandedInstance } from '@nereid/config';
import type { InstanceDescription } from '@nereid/protocol';
import type { Instance } from './instance.ts';

/** The sequences of a version, whose state its instances have. */
export interface InstanceSequences {
  /** What an instance (all of them, where it is undefined) had of them is gone. */
  lost(instance: number | undefined): void;
  /** Resolves once the instance has none. */
  over(instance: number): Promise<void>;
}

/** An instance of a version, with what it was started as. */
export interface HeldInstance {
  readonly expanded: ExpandedInstance;
  readonly instance: Instance;
  /** Not wanted any more. */
  leaving: boolean;
  /** It takes nothing more, and is not described. */
  gone?: boolean;
}

export function describeHeld({ instance, leaving, gone }: HeldInstance): InstanceDescription[] {
  if (gone === true) return [];
  return [leaving ? { ...instance.describe(), leaving } : instance.describe()];
}

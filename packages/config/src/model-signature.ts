import type { Datatype } from '@nereid/protocol';

export interface TensorSignature {
  readonly name: string;
  readonly datatype: Datatype;
  /** Without the batch dimension; -1 is variable. What clients send and see. */
  readonly dims: readonly number[];
  /** What the model itself takes or gives in place of `dims`, where the config reshapes. */
  readonly reshape: readonly number[] | null;
}

export interface InputSignature extends TensorSignature {
  readonly optional: boolean;
  readonly ragged: boolean;
}

/**
 * The part of a ModelConfig that each request is checked against, with plain numbers.
 * Made once per config by `modelSignature`, since the config's own int64 fields are bigints.
 */
export interface ModelSignature {
  readonly name: string;
  readonly maxBatchSize: number;
  readonly inputs: readonly InputSignature[];
  readonly outputs: readonly TensorSignature[];
  readonly decoupled: boolean;
}

import type { Datatype } from '@nereid/protocol';
import { refuseField } from './config-fault.ts';
import { jobBytesMax } from './config-parameters.ts';
import { type EnsembleSignature, ensembleSignature } from './ensemble.ts';
import {
  type BatchInput,
  DataType,
  BatchInput_Kind as Kind,
  type ModelConfig,
  type ModelInput,
  type ModelOutput,
} from './gen/model_config_pb.ts';
import { protocolDatatype } from './protocol-datatype.ts';
import { type SequenceSignature, sequenceSignature } from './sequence-signature.ts';

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
  /** May differ in shape between the requests of a batch (`allow_ragged_batch`). */
  readonly ragged: boolean;
}

/** What a batch input tells of its source over the requests of a batch (model_config.proto, BatchInput.Kind). */
export type BatchInputKind =
  | 'ELEMENT_COUNT'
  | 'ACCUMULATED_ELEMENT_COUNT'
  | 'ACCUMULATED_ELEMENT_COUNT_WITH_ZERO'
  | 'MAX_ELEMENT_COUNT_AS_SHAPE'
  | 'ITEM_SHAPE'
  | 'ITEM_SHAPE_FLATTEN';

/** An input of the model that is made of a batch and that no request has. */
export interface BatchInputSignature {
  readonly kind: BatchInputKind;
  /** The model's inputs that get it. */
  readonly targets: readonly string[];
  readonly datatype: 'INT32' | 'FP32';
  /** Name of the input that it tells of. */
  readonly source: string;
}

/** An output over a whole batch, of which each request gets as much as its source has (BATCH_SCATTER_WITH_INPUT_SHAPE). */
export interface BatchOutputSignature {
  readonly target: string;
  /** Name of the input whose dimensions stand in place of the output's variable ones. */
  readonly source: string;
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
  readonly batchInputs: readonly BatchInputSignature[];
  readonly batchOutputs: readonly BatchOutputSignature[];
  readonly decoupled: boolean;
  /** Bytes that the inputs of a job may take; undefined for no limit of the model's own. */
  readonly jobBytesMax?: number | undefined;
  /** Undefined where the model keeps no sequences. */
  readonly sequence?: SequenceSignature | undefined;
  /** Undefined where the model is not an ensemble. */
  readonly ensemble?: EnsembleSignature | undefined;
}

const BATCH_INPUT_KINDS: Readonly<Record<Kind, BatchInputKind>> = {
  [Kind.BATCH_ELEMENT_COUNT]: 'ELEMENT_COUNT',
  [Kind.BATCH_ACCUMULATED_ELEMENT_COUNT]: 'ACCUMULATED_ELEMENT_COUNT',
  [Kind.BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO]: 'ACCUMULATED_ELEMENT_COUNT_WITH_ZERO',
  [Kind.BATCH_MAX_ELEMENT_COUNT_AS_SHAPE]: 'MAX_ELEMENT_COUNT_AS_SHAPE',
  [Kind.BATCH_ITEM_SHAPE]: 'ITEM_SHAPE',
  [Kind.BATCH_ITEM_SHAPE_FLATTEN]: 'ITEM_SHAPE_FLATTEN',
};

/**
 * What requests to this model must look like. Takes a completed and checked config.
 * Throws INVALID_ARG for a tensor without a datatype or with a dimension beyond 2^53.
 */
export function modelSignature(config: ModelConfig): ModelSignature {
  const { name } = config;
  return {
    name,
    maxBatchSize: config.maxBatchSize,
    inputs: config.input.map((input, index) => ({
      ...tensorSignature(name, 'input', input, index),
      optional: input.optional,
      ragged: input.allowRaggedBatch,
    })),
    outputs: config.output.map((output, index) => tensorSignature(name, 'output', output, index)),
    batchInputs: config.batchInput.map(batchInputSignature),
    batchOutputs: config.batchOutput.flatMap(({ targetName, sourceInput }) =>
      targetName.map((target) => ({ target, source: sourceInput[0] ?? '' })),
    ),
    decoupled: config.modelTransactionPolicy?.decoupled ?? false,
    jobBytesMax: jobBytesMax(config),
    sequence: sequenceSignature(config),
    ensemble: ensembleSignature(config),
  };
}

function batchInputSignature({ kind, targetName, dataType, sourceInput }: BatchInput): BatchInputSignature {
  return {
    kind: BATCH_INPUT_KINDS[kind],
    targets: targetName,
    datatype: dataType === DataType.TYPE_FP32 ? 'FP32' : 'INT32',
    source: sourceInput[0] ?? '',
  };
}

function tensorSignature(
  model: string,
  side: 'input' | 'output',
  io: ModelInput | ModelOutput,
  index: number,
): TensorSignature {
  const datatype = protocolDatatype(io.dataType);
  const what = `model ${side} '${io.name}'`;
  const path = `${side}[${index}]`;
  if (datatype === undefined) {
    refuseField(`${path}.data_type`, `${what} must specify 'data_type' for ${model}`);
  }
  return {
    name: io.name,
    datatype,
    dims: dimensions(model, `${path}.dims`, what, io.dims),
    reshape:
      io.reshape === undefined ? null : dimensions(model, `${path}.reshape`, `${what} reshape`, io.reshape.shape),
  };
}

function dimensions(model: string, path: string, what: string, dims: readonly bigint[]): number[] {
  return dims.map((dim) => {
    const number = Number(dim);
    if (!Number.isSafeInteger(number)) {
      const text = `${what} has dimension ${dim} for ${model}; the largest that can be served is 2^53 - 1`;
      refuseField(path, text);
    }
    return number;
  });
}

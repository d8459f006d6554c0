import { clone, create } from '@bufbuild/protobuf';
import { NereidError } from '@nereid/protocol';
import { sequenceTensors } from './check-onnx-sequence.ts';
import {
  type ModelConfig,
  ModelConfigSchema,
  ModelDynamicBatchingSchema,
  ModelInputSchema,
  ModelOutputSchema,
  ModelTensorReshapeSchema,
} from './gen/model_config_pb.ts';
import { onnxDatatype } from './onnx-datatype.ts';
import type { OnnxGraph, OnnxTensor } from './onnx-graph.ts';

/** Triton's `default-max-batch-size` of every backend. */
export const DEFAULT_MAX_BATCH_SIZE = 4;

/** Whether a config leaves inputs or outputs to be completed; if not, autocomplete changes nothing. */
function needsCompletion(config: ModelConfig): boolean {
  return config.input.length + config.batchInput.length === 0 || config.output.length === 0;
}

/**
 * A copy of a config with what it leaves out taken from the graph (onnxruntime_backend/src/
 * onnxruntime.cc, AutoCompleteConfig): max_batch_size and dynamic_batching where every tensor has a
 * variable first dimension, and whichever of inputs and outputs is missing, but for the controls and states of
 * sequences (which Triton lists too, and then refuses the inputs). An explicit
 * `max_batch_size: 0` cannot be told from none and is completed too. The result is to be normalised
 * again. Throws INVALID_ARG where the graph contradicts max_batch_size or does not tell enough.
 */
export function completeFromOnnx(
  config: ModelConfig,
  graph: OnnxGraph,
  defaultMaxBatchSize: number = DEFAULT_MAX_BATCH_SIZE,
): ModelConfig {
  const completed = clone(ModelConfigSchema, config);
  if (!needsCompletion(config)) return completed;
  completeBatching(completed, graph, defaultMaxBatchSize);
  const { inputs: made, outputs: states } = sequenceTensors(config);
  if (config.input.length + config.batchInput.length === 0) {
    const inputs = graph.inputs.filter(({ name }) => !made.includes(name));
    completed.input = inputs.map((tensor) => create(ModelInputSchema, completedTensor(completed, tensor)));
  }
  if (config.output.length === 0) {
    const outputs = graph.outputs.filter(({ name }) => !states.includes(name));
    completed.output = outputs.map((tensor) => create(ModelOutputSchema, completedTensor(completed, tensor)));
  }
  return completed;
}

function completeBatching(config: ModelConfig, graph: OnnxGraph, defaultMaxBatchSize: number): void {
  const batches = [...graph.inputs, ...graph.outputs].every((tensor) => tensor.dims?.[0] === -1);
  if (!batches) {
    if (config.maxBatchSize === 0) return;
    const text = 'model does not support batching while non-zero max_batch_size is specified';
    throw new NereidError('INVALID_ARG', `autofill failed for model '${config.name}': ${text}`, {
      field: 'max_batch_size',
    });
  }
  if (config.maxBatchSize === 0) config.maxBatchSize = Math.max(0, defaultMaxBatchSize);
  const { case: scheduling } = config.schedulingChoice;
  if (config.maxBatchSize > 1 && scheduling === undefined) {
    config.schedulingChoice = { case: 'dynamicBatching', value: create(ModelDynamicBatchingSchema) };
  }
}

function completedTensor(config: ModelConfig, tensor: OnnxTensor) {
  const dataType = onnxDatatype(tensor.elementType);
  if (dataType === undefined) {
    const what = tensor.elementType === 0 ? 'no tensor' : `of ONNX element type ${tensor.elementType}`;
    refuse(config, `'${tensor.name}' is ${what}, which no config can describe`);
  }
  if (tensor.dims === null) {
    refuse(config, `the graph gives no shape for '${tensor.name}'; write its dims in config.pbtxt`);
  }
  const dims = config.maxBatchSize > 0 ? tensor.dims.slice(1) : tensor.dims;
  const scalar = dims.length === 0;
  return {
    name: tensor.name,
    dataType,
    dims: scalar ? [1n] : dims.map(BigInt),
    ...(scalar && config.maxBatchSize > 0 ? { reshape: create(ModelTensorReshapeSchema) } : {}),
  };
}

function refuse(config: ModelConfig, why: string): never {
  throw new NereidError('INVALID_ARG', `autofill failed for model '${config.name}': ${why}`);
}

import { checkOnnxSequence, sequenceTensors } from './check-onnx-sequence.ts';
import { refuseField, tensorPath } from './config-fault.ts';
import {
  type BatchInput,
  BatchInput_Kind,
  DataType,
  type ModelConfig,
  type ModelInput,
  type ModelOutput,
} from './gen/model_config_pb.ts';
import { onnxDatatype } from './onnx-datatype.ts';
import type { OnnxGraph, OnnxTensor } from './onnx-graph.ts';

type Side = 'input' | 'output';

/**
 * Refuses a completed config that does not describe its ONNX file (onnxruntime_backend/src/
 * onnxruntime.cc, ValidateInputs and ValidateOutputs). Throws INVALID_ARG naming the tensor and both
 * sides. Milder than Triton, which asks the loaded session: an output dimension that is symbolic in
 * the file may be fixed in the config, since the session often knows it, and an output without a
 * shape in the file may have any. Stricter for batch inputs, whose datatype and rank Triton leaves to the run.
 */
export function checkOnnxGraph(config: ModelConfig, graph: OnnxGraph): void {
  const targets = config.batchInput.flatMap((batchInput) => batchInput.targetName);
  checkOnnxSequence(config, graph);
  const made = sequenceTensors(config).inputs.length + targets.length;
  const required = config.input.filter((input) => !input.optional).length + made;
  if (graph.inputs.length !== required) {
    const names = graph.inputs.map((input) => `'${input.name}'`).join(', ');
    const text = `configuration expects ${required} inputs, model provides ${graph.inputs.length}`;
    refuse(config, 'input', `${text} (${names})`);
  }
  const inputs = [...graph.inputs, ...graph.optionalInputs];
  for (const input of config.input) {
    if (input.optional && config.maxBatchSize !== 0) {
      refuse(
        config,
        `${tensorPath(config, 'input', input.name)}.optional`,
        `optional input '${input.name}' is not supported for models that support batching`,
      );
    }
    const tensor = counterpart(config, 'input', input, inputs);
    if (input.optional && graph.inputs.includes(tensor)) {
      const why = 'the model has no default for it (an initializer of that name)';
      refuse(
        config,
        `${tensorPath(config, 'input', input.name)}.optional`,
        `input '${input.name}' cannot be optional: ${why}`,
      );
    }
    if (input.allowRaggedBatch) checkRagged(config, input, tensor);
    else checkDims(config, 'input', input, tensor);
  }
  for (const batchInput of config.batchInput) checkBatchInput(config, batchInput, graph.inputs);
  const scattered = new Set(config.batchOutput.flatMap((batchOutput) => batchOutput.targetName));
  for (const output of config.output) {
    const tensor = counterpart(config, 'output', output, graph.outputs);
    // What is scattered need not have the rank of what a request gets.
    if (!scattered.has(output.name)) checkDims(config, 'output', output, tensor);
  }
}

function refuse(config: ModelConfig, path: string, text: string): never {
  refuseField(path, `unable to load model '${config.name}', ${text}`);
}

/** The graph's tensor of that name and datatype. */
function counterpart(
  config: ModelConfig,
  side: Side,
  io: { readonly name: string; readonly dataType: DataType },
  tensors: readonly OnnxTensor[],
): OnnxTensor {
  const tensor = tensors.find((one) => one.name === io.name);
  if (tensor === undefined) {
    const allowed = tensors.map((one) => one.name).sort();
    return refuse(
      config,
      tensorPath(config, side, io.name),
      `unexpected inference ${side} '${io.name}', allowed ${side}s are: ${allowed.join(', ')}`,
    );
  }
  const datatype = onnxDatatype(tensor.elementType);
  if (datatype !== io.dataType) {
    const provides =
      datatype !== undefined
        ? DataType[datatype]
        : tensor.elementType === 0
          ? 'no tensor'
          : `ONNX element type ${tensor.elementType}`;
    const expects = `configuration expects datatype ${DataType[io.dataType]} for ${side} '${io.name}'`;
    refuse(config, `${tensorPath(config, side, io.name)}.data_type`, `${expects}, model provides ${provides}`);
  }
  return tensor;
}

/** The parts of all requests are one run of elements to the model. */
function checkRagged(config: ModelConfig, input: ModelInput, { dims }: OnnxTensor): void {
  const expects = `configuration expects model provides input with shape [-1] for ragged input '${input.name}'`;
  const path = `${tensorPath(config, 'input', input.name)}.allow_ragged_batch`;
  if (input.optional) refuse(config, path, `${expects}, which is not supported for optional input`);
  if (dims === null || (dims.length === 1 && dims[0] === -1)) return;
  refuse(config, path, `${expects}, model provides [${dims.join(',')}]`);
}

function checkBatchInput(config: ModelConfig, batchInput: BatchInput, tensors: readonly OnnxTensor[]): void {
  const { kind, dataType } = batchInput;
  const rank = kind === BatchInput_Kind.BATCH_ITEM_SHAPE ? 2 : 1;
  for (const name of batchInput.targetName) {
    const { dims } = counterpart(config, 'input', { name, dataType }, tensors);
    if (dims === null || dims.length === rank) continue;
    const text = `batch input '${name}' of kind ${BatchInput_Kind[kind]} has ${rank} dimensions, model provides`;
    refuse(config, 'batch_input', `${text} [${dims.join(',')}]`);
  }
}

function checkDims(config: ModelConfig, side: Side, io: ModelInput | ModelOutput, tensor: OnnxTensor): void {
  if (tensor.dims === null) return;
  const dims = (io.reshape?.shape ?? io.dims).map(Number);
  const what = `tensor '${io.name}'`;
  const path = `${tensorPath(config, side, io.name)}.${io.reshape === undefined ? 'dims' : 'reshape'}`;
  if (tensor.dims.length === 0 && config.maxBatchSize === 0) {
    if (dims.every((dim) => dim === 1)) return;
    const text = 'should only provide 1 in the model configuration when the model does not support batching';
    refuse(config, path, `scalar ${what} ${text}. Model configuration provided: [${dims.join(',')}].`);
  }
  const batching = config.maxBatchSize > 0;
  const model = `[${tensor.dims.join(',')}]`;
  if (batching && tensor.dims[0] !== -1) {
    const text =
      'for the model to support batching the shape should have at least 1 dimension and the first dimension must ' +
      `be -1; but shape expected by the model is ${model}; set max_batch_size to 0 and give the full shape in dims`;
    refuse(config, 'max_batch_size', `${what}: ${text}`);
  }
  const full = batching ? [-1, ...dims] : dims;
  const fits =
    tensor.dims.length === full.length && tensor.dims.every((dim, index) => dim === -1 || dim === full[index]);
  if (fits) return;
  const made = batching
    ? '(an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making ' +
      `complete shape [${full.join(',')}])`
    : `(shape [${full.join(',')}])`;
  const text = `the model expects ${tensor.dims.length} dimensions (shape ${model}) but the model configuration`;
  refuse(config, path, `${what}: ${text} specifies ${full.length} dimensions ${made}`);
}

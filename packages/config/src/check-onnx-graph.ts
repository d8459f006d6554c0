import { NereidError } from '@nereid/protocol';
import { DataType, type ModelConfig, type ModelInput, type ModelOutput } from './gen/model_config_pb.ts';
import { onnxDatatype } from './onnx-datatype.ts';
import type { OnnxGraph, OnnxTensor } from './onnx-graph.ts';

/**
 * Refuses a completed config that does not describe its ONNX file (onnxruntime_backend/src/
 * onnxruntime.cc, ValidateInputs and ValidateOutputs). Throws INVALID_ARG naming the tensor and both
 * sides. Milder than Triton, which asks the loaded session: an output dimension that is symbolic in
 * the file may be fixed in the config, since the session often knows it, and an output without a
 * shape in the file may have any.
 */
export function checkOnnxGraph(config: ModelConfig, graph: OnnxGraph): void {
  const required = config.input.filter((input) => !input.optional).length;
  if (graph.inputs.length !== required) {
    const names = graph.inputs.map((input) => `'${input.name}'`).join(', ');
    const text = `configuration expects ${required} inputs, model provides ${graph.inputs.length}`;
    refuse(config, 'input', `${text} (${names})`);
  }
  const inputs = [...graph.inputs, ...graph.optionalInputs];
  for (const input of config.input) {
    if (input.optional && config.maxBatchSize !== 0) {
      refuse(config, 'optional', `optional input '${input.name}' is not supported for models that support batching`);
    }
    const tensor = counterpart(config, 'input', input, inputs);
    if (input.optional && graph.inputs.includes(tensor)) {
      const why = 'the model has no default for it (an initializer of that name)';
      refuse(config, 'optional', `input '${input.name}' cannot be optional: ${why}`);
    }
    checkDims(config, input, tensor);
  }
  for (const output of config.output) {
    checkDims(config, output, counterpart(config, 'output', output, graph.outputs));
  }
}

function refuse(config: ModelConfig, field: string, text: string): never {
  throw new NereidError('INVALID_ARG', `unable to load model '${config.name}', ${text}`, { field });
}

/** The graph's tensor of that name and datatype. */
function counterpart(
  config: ModelConfig,
  side: 'input' | 'output',
  io: ModelInput | ModelOutput,
  tensors: readonly OnnxTensor[],
): OnnxTensor {
  const tensor = tensors.find((one) => one.name === io.name);
  if (tensor === undefined) {
    const allowed = tensors.map((one) => one.name).sort();
    return refuse(
      config,
      side,
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
    refuse(config, 'data_type', `${expects}, model provides ${provides}`);
  }
  return tensor;
}

function checkDims(config: ModelConfig, io: ModelInput | ModelOutput, tensor: OnnxTensor): void {
  if (tensor.dims === null) return;
  const dims = (io.reshape?.shape ?? io.dims).map(Number);
  const what = `tensor '${io.name}'`;
  if (tensor.dims.length === 0 && config.maxBatchSize === 0) {
    if (dims.every((dim) => dim === 1)) return;
    const text = 'should only provide 1 in the model configuration when the model does not support batching';
    refuse(config, 'dims', `scalar ${what} ${text}. Model configuration provided: [${dims.join(',')}].`);
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
  refuse(config, 'dims', `${what}: ${text} specifies ${full.length} dimensions ${made}`);
}

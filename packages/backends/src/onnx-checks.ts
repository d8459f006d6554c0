/**
 * What a config says against what an ONNX session has, at load: onnxruntime checks no name and no
 * shape that it is not asked for. Texts follow Triton's ONNX Runtime backend (onnxruntime.cc) and
 * backend_common.cc (CompareDimsSupported).
 */
import type { ModelSignature, TensorSignature } from '@nereid/config';
import { type Datatype, NereidError } from '@nereid/protocol';
import type { InferenceSession } from 'onnxruntime-node';
import { datatypeOf } from './onnx-tensors.ts';

type Metadata = readonly InferenceSession.ValueMetadata[];

/** Throws INVALID_ARG at the first difference. Outputs of the model that the config leaves out are not served. */
export function checkSession(signature: ModelSignature, inputs: Metadata, outputs: Metadata): void {
  const { name } = signature;
  if (signature.inputs.length !== inputs.length) {
    refuse(
      `unable to load model '${name}', configuration expects ${signature.inputs.length} inputs, model provides ${inputs.length}`,
    );
  }
  for (const input of signature.inputs) checkTensor(signature, 'input', input, inputs);
  for (const output of signature.outputs) checkTensor(signature, 'output', output, outputs);
}

function refuse(text: string): never {
  throw new NereidError('INVALID_ARG', text);
}

function checkTensor(
  model: ModelSignature,
  side: 'input' | 'output',
  tensor: TensorSignature,
  provided: Metadata,
): void {
  const found = provided.find((candidate) => candidate.name === tensor.name);
  if (found === undefined) {
    const allowed = provided.map((candidate) => candidate.name).join(', ');
    refuse(`unexpected inference ${side} '${tensor.name}' for model '${model.name}', allowed ${side}s are: ${allowed}`);
  }
  if (!found.isTensor) refuse(`${side} '${tensor.name}' of model '${model.name}' is not a tensor`);
  const datatype = datatypeOf(found.type);
  if (datatype !== tensor.datatype) {
    refuse(
      `unable to load model '${model.name}', configuration expects datatype ${configType(tensor.datatype)} for ${side} ` +
        `'${tensor.name}', model provides ${datatype === undefined ? found.type : configType(datatype)}`,
    );
  }
  // A dimension with a name is variable. Rank 0 is also what a graph without a shape shows.
  const dims = found.shape.map((dim) => (typeof dim === 'number' ? dim : -1));
  if (dims.length > 0) checkDims(model, tensor, dims);
}

function checkDims(model: ModelSignature, tensor: TensorSignature, dims: readonly number[]): void {
  const where = `model '${model.name}', tensor '${tensor.name}'`;
  const batching = model.maxBatchSize > 0;
  if (batching && dims[0] !== -1) {
    refuse(
      `${where}: for the model to support batching the shape should have at least 1 dimension and the first ` +
        `dimension must be -1; but shape expected by the model is ${shapeText(dims)}`,
    );
  }
  const own = tensor.reshape ?? tensor.dims;
  const configured = batching ? [-1, ...own] : own;
  if (dims.length !== configured.length) {
    const note = batching
      ? ` (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape ${shapeText(configured)})`
      : ` (shape ${shapeText(configured)})`;
    refuse(
      `${where}: the model expects ${dims.length} dimensions (shape ${shapeText(dims)}) but the model configuration ` +
        `specifies ${configured.length} dimensions${note}`,
    );
  }
  if (dims.some((dim, axis) => dim !== -1 && configured[axis] !== -1 && dim !== configured[axis])) {
    refuse(
      `${where}: the model expects shape ${shapeText(dims)} but the model configuration specifies shape ${shapeText(configured)}`,
    );
  }
}

function shapeText(shape: readonly number[]): string {
  return `[${shape.join(',')}]`;
}

function configType(datatype: Datatype): string {
  return `TYPE_${datatype === 'BYTES' ? 'STRING' : datatype}`;
}

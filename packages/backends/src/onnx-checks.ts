/**
 * What a config says against what an ONNX session has, at load: onnxruntime checks no name and no
 * shape that it is not asked for. Texts follow Triton's ONNX Runtime backend (onnxruntime.cc) and
 * backend_common.cc (CompareDimsSupported).
 */
import type { ControlSignature, ModelSignature, TensorSignature } from '@nereid/config';
import { type Datatype, NereidError } from '@nereid/protocol';
import type { InferenceSession } from 'onnxruntime-node';
import { datatypeOf } from './onnx-tensors.ts';

type Metadata = readonly InferenceSession.ValueMetadata[];

/** Throws INVALID_ARG at the first difference. Outputs of the model that the config leaves out are not served. */
export function checkSession(signature: ModelSignature, inputs: Metadata, outputs: Metadata): void {
  const { name } = signature;
  const made = signature.batchInputs.flatMap(({ targets, datatype }) =>
    targets.map((target) => ({ name: target, datatype })),
  );
  const { controls = [], states = [] } = signature.sequence ?? {};
  for (const control of controls) checkControl(signature, control, inputs);
  const expected = signature.inputs.length + made.length + controls.length + states.length;
  if (expected !== inputs.length) {
    refuse(`unable to load model '${name}', configuration expects ${expected} inputs, model provides ${inputs.length}`);
  }
  for (const input of signature.inputs) {
    const dims = checkTensor(signature, 'input', input, inputs);
    if (input.ragged) checkRagged(signature, input, dims);
    else checkDims(signature, input, dims);
  }
  for (const target of made) checkTensor(signature, 'input', target, inputs);
  for (const { inputName, outputName, datatype, dims } of states) {
    const state = { datatype, dims, reshape: null };
    const taken = { ...state, name: inputName };
    const given = { ...state, name: outputName };
    checkDims(signature, taken, checkTensor(signature, 'input', taken, inputs));
    checkDims(signature, given, checkTensor(signature, 'output', given, outputs));
  }
  for (const output of signature.outputs) {
    const dims = checkTensor(signature, 'output', output, outputs);
    // What is scattered need not have the rank of what a request gets.
    if (!signature.batchOutputs.some(({ target }) => target === output.name)) checkDims(signature, output, dims);
  }
}

function refuse(text: string): never {
  throw new NereidError('INVALID_ARG', text);
}

/** Controls are of shape [1] (onnxruntime.cc, ValidateBooleanSequenceControl and ValidateTypedSequenceControl). */
function checkControl(model: ModelSignature, control: ControlSignature, provided: Metadata): void {
  const { name } = control;
  if (!provided.some((candidate) => candidate.name === name)) {
    refuse(`configuration specified sequence control '${name}', but model does not provide that input`);
  }
  const dims = checkTensor(model, 'input', control, provided).slice(model.maxBatchSize > 0 ? 1 : 0);
  if (dims.length === 1 && dims[0] === 1) return;
  const text = `sequence control '${name}' in model has dims ${shapeText(dims)} but dims [1] is expected`;
  refuse(`unable to load model '${model.name}', ${text}`);
}

/** The model's dimensions of a tensor whose name and datatype it has; -1 is variable. */
function checkTensor(
  model: ModelSignature,
  side: 'input' | 'output',
  tensor: Pick<TensorSignature, 'name' | 'datatype'>,
  provided: Metadata,
): readonly number[] {
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
  return found.shape.map((dim) => (typeof dim === 'number' ? dim : -1));
}

function checkRagged(model: ModelSignature, input: TensorSignature, dims: readonly number[]): void {
  if (dims.length === 0 || (dims.length === 1 && dims[0] === -1)) return;
  refuse(
    `unable to load model '${model.name}', configuration expects model provides input with shape [-1] for ragged ` +
      `input '${input.name}', model provides ${shapeText(dims)}`,
  );
}

function checkDims(model: ModelSignature, tensor: TensorSignature, dims: readonly number[]): void {
  if (dims.length === 0) return;
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

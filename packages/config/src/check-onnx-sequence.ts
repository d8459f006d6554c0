import { refuseField } from './config-fault.ts';
import { DataType, type ModelConfig } from './gen/model_config_pb.ts';
import { onnxDatatype } from './onnx-datatype.ts';
import type { OnnxGraph, OnnxTensor } from './onnx-graph.ts';
import type { protocolDatatype } from './protocol-datatype.ts';
import { sequenceSignature } from './sequence-signature.ts';

/** Names of the graph's inputs and outputs that no request has and no answer needs to have. */
export interface SequenceTensors {
  /** Controls and states. */
  readonly inputs: readonly string[];
  /** States. */
  readonly outputs: readonly string[];
}

const NONE: SequenceTensors = { inputs: [], outputs: [] };

export function sequenceTensors(config: ModelConfig): SequenceTensors {
  const sequence = sequenceSignature(config);
  if (sequence === undefined) return NONE;
  return {
    inputs: [...sequence.controls.map(({ name }) => name), ...sequence.states.map(({ inputName }) => inputName)],
    outputs: sequence.states.map(({ outputName }) => outputName),
  };
}

/**
 * Refuses a config whose controls or states the graph has not (onnxruntime.cc,
 * ValidateBooleanSequenceControl, ValidateTypedSequenceControl, and the states of ValidateOutputs).
 * Throws INVALID_ARG naming the tensor. Stricter for states, whose inputs and shapes Triton leaves to the run.
 */
export function checkOnnxSequence(config: ModelConfig, graph: OnnxGraph): void {
  const sequence = sequenceSignature(config);
  if (sequence === undefined) return;
  const batching = config.maxBatchSize > 0;
  for (const { name, datatype } of sequence.controls) {
    const path = partPath(config, 'controlInput', name);
    const tensor = graph.inputs.find((one) => one.name === name);
    if (tensor === undefined) {
      const text = `configuration specified sequence control '${name}', but model does not provide that input`;
      refuseField(path, text);
    }
    const what = `sequence control '${name}'`;
    const dims = batching ? tensor.dims?.slice(1) : tensor.dims;
    if (dims !== null && dims !== undefined && (dims.length !== 1 || dims[0] !== 1)) {
      refuse(config, path, `${what} in model has dims [${dims.join(',')}] but dims [1] is expected`);
    }
    const provided = typeName(tensor);
    if (provided !== configName(datatype)) {
      const specifies = `the model configuration specifies data-type ${configName(datatype)}`;
      refuse(config, path, `${what}, the model expects data-type ${provided} but ${specifies}`);
    }
  }
  for (const { inputName, outputName, datatype, dims } of sequence.states) {
    const full = batching ? [-1, ...dims] : dims;
    checkState(config, 'input', inputName, graph.inputs, configName(datatype), full);
    checkState(config, 'output', outputName, graph.outputs, configName(datatype), full);
  }
}

function refuse({ name }: ModelConfig, path: string, text: string): never {
  refuseField(path, `unable to load model '${name}', ${text}`);
}

/** The path of a control or state by the name of its input or output. */
function partPath({ schedulingChoice: choice }: ModelConfig, part: 'controlInput' | 'state', name: string): string {
  const field = part === 'state' ? 'state' : 'control_input';
  if (choice.case !== 'sequenceBatching') return 'sequence_batching';
  const index =
    part === 'state'
      ? choice.value.state.findIndex(({ inputName, outputName }) => inputName === name || outputName === name)
      : choice.value.controlInput.findIndex((control) => control.name === name);
  return `sequence_batching.${field}[${index}]`;
}

function checkState(
  config: ModelConfig,
  side: 'input' | 'output',
  name: string,
  tensors: readonly OnnxTensor[],
  datatype: string,
  dims: readonly number[],
): void {
  const path = partPath(config, 'state', name);
  const tensor = tensors.find((one) => one.name === name);
  if (tensor === undefined) {
    const allowed = tensors.map((one) => one.name).sort();
    refuse(config, path, `unexpected inference ${side} '${name}', allowed ${side}s are: ${allowed.join(', ')}`);
  }
  const provided = typeName(tensor);
  if (provided !== datatype) {
    const expects = `configuration expects datatype ${datatype} for ${side} state '${name}'`;
    refuse(config, path, `${expects}, model provides ${provided}`);
  }
  const model = tensor.dims;
  if (model === null) return;
  const fits = model.length === dims.length && model.every((dim, axis) => dim === -1 || isEither(dims[axis], dim));
  if (fits && (config.maxBatchSize === 0 || model[0] === -1)) return;
  const text = `the model expects shape [${model.join(',')}] for ${side} state '${name}' but the model configuration`;
  refuse(config, path, `${text} specifies shape [${dims.join(',')}]`);
}

/** A dimension that the config leaves variable is as good as the model's. */
function isEither(configured: number | undefined, dim: number): boolean {
  return configured === -1 || configured === dim;
}

function typeName({ elementType }: OnnxTensor): string {
  const datatype = onnxDatatype(elementType);
  return datatype === undefined ? `ONNX element type ${elementType}` : DataType[datatype];
}

function configName(datatype: ReturnType<typeof protocolDatatype>): string {
  return `TYPE_${datatype === 'BYTES' ? 'STRING' : datatype}`;
}

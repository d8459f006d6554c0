/**
 * ONNX models on onnxruntime-node. Each instance has a session of its own; `run` blocks the
 * instance's thread, reads its feeds after it was called and cannot be stopped.
 */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { BatchOutputSignature, ModelSignature, StateSignature, TensorSignature } from '@nereid/config';
import { clientShape, modelShape } from '@nereid/config/reshape.js';
import { elementCount, NereidError } from '@nereid/protocol';
import { InferenceSession, type Tensor as OrtTensor } from 'onnxruntime-node';
import type { Backend, BackendInstance, Batch, BatchResult, InstanceLoad, JoinedTensor } from './backend.ts';
import { batchInputTensors } from './batch-inputs.ts';
import { checkSession } from './onnx-checks.ts';
import { takeOverridableInputs } from './onnx-defaults.ts';
import { sessionOptions } from './onnx-options.ts';
import { feedOf, outputOf } from './onnx-tensors.ts';
import { scatteredShapes } from './scattered-shapes.ts';

const DEFAULT_FILENAME = 'model.onnx';
const NO_STATES: readonly StateSignature[] = [];

interface LoadedSession {
  readonly session: InferenceSession;
  /** Values of the optional inputs that a request may leave out. */
  readonly defaults: ReadonlyMap<string, OrtTensor>;
}

/**
 * The `onnxruntime` backend. A load fails with UNAVAILABLE for a missing file or GPU provider,
 * INVALID_ARG where config and graph differ, UNSUPPORTED for types that onnxruntime-node cannot
 * pass, INTERNAL with onnxruntime's own words for everything else.
 */
export const onnxruntimeBackend: Backend = {
  name: 'onnxruntime',
  async load(load: InstanceLoad): Promise<BackendInstance> {
    const { signature } = load;
    const { session, defaults } = await openSession(load, await modelPath(load));
    try {
      checkSession(signature, session.inputMetadata, session.outputMetadata);
    } catch (refusal) {
      await session.release();
      throw refusal;
    }
    return {
      needsRequests: false,
      execute: (batch) => execute(signature, { session, defaults }, batch),
      finalize: () => session.release(),
    };
  },
};

/** The model's file; a folder of that name holds a `model.onnx` with its external data beside it. */
async function modelPath(load: InstanceLoad): Promise<string> {
  const path = join(load.versionDirectory, load.config.defaultModelFilename || DEFAULT_FILENAME);
  try {
    return (await stat(path)).isDirectory() ? join(path, DEFAULT_FILENAME) : path;
  } catch (cause) {
    throw new NereidError('UNAVAILABLE', `unable to find '${path}' for model instance '${load.instanceName}'`, {
      cause,
    });
  }
}

async function openSession(load: InstanceLoad, path: string): Promise<LoadedSession> {
  const options = sessionOptions(load);
  const session = await createSession(load, path, options);
  const hidden = load.signature.inputs.filter((input) => input.optional && !session.inputNames.includes(input.name));
  if (hidden.length === 0) return { session, defaults: new Map() };

  const taken = takeOverridableInputs(await readFile(path), new Set(hidden.map((input) => input.name)));
  if (taken.defaults.size === 0) return { session, defaults: new Map() };
  await session.release();
  const defaults = new Map<string, OrtTensor>();
  for (const [name, model] of taken.defaults) {
    const constant = await createSession(load, model, options);
    const value = (await constant.run({}))[name];
    if (value !== undefined) defaults.set(name, value);
    await constant.release();
  }
  return { session: await createSession(load, taken.model, options), defaults };
}

async function createSession(
  load: InstanceLoad,
  model: string | Uint8Array,
  options: InferenceSession.SessionOptions,
): Promise<InferenceSession> {
  try {
    return typeof model === 'string'
      ? await InferenceSession.create(model, options)
      : await InferenceSession.create(model, options);
  } catch (cause) {
    throw loadError(load, cause);
  }
}

function loadError(load: InstanceLoad, cause: unknown): NereidError {
  const text = ortText(cause);
  const model = load.config.name;
  if (/ExecutionProvider_(Cuda|TensorRT)|providers_(shared|cuda|tensorrt)/i.test(text)) {
    return new NereidError(
      'UNAVAILABLE',
      `instance '${load.instanceName}' of model '${model}' is for GPU ${load.device.id}, but onnxruntime-node cannot load its ` +
        `GPU provider (${text}); install its libraries with 'node node_modules/onnxruntime-node/script/install.js' ` +
        'and CUDA 12 with cuDNN 9, or give the model an instance_group of kind KIND_CPU',
      { cause },
    );
  }
  if (text.startsWith('Unsupported data type')) {
    return new NereidError(
      'UNSUPPORTED',
      `model '${model}' has an input or output of a type that onnxruntime-node cannot pass, such as BF16 (${text}); ` +
        'cast it to FP32 or FP16 in the graph',
      { cause },
    );
  }
  return new NereidError('INTERNAL', `onnx runtime error: ${text}`, { cause });
}

async function execute(signature: ModelSignature, loaded: LoadedSession, batch: Batch): Promise<BatchResult> {
  const batching = signature.maxBatchSize > 0;
  const feeds: Record<string, OrtTensor> = {};
  for (const [name, value] of loaded.defaults) feeds[name] = value;
  for (const input of batch.joined) {
    const declared = signature.inputs.find((candidate) => candidate.name === input.name);
    if (declared === undefined) {
      throw new NereidError('INVALID_ARG', `unexpected inference input '${input.name}' for model '${signature.name}'`);
    }
    feeds[input.name] = feedOf(input, declared.ragged ? input.shape : modelShape(declared, input.shape, batching));
  }
  if (signature.batchInputs.length > 0) feedBatchInputs(signature, batch, feeds);
  if (batch.made !== undefined) for (const made of batch.made) feeds[made.name] = feedOf(made, made.shape);
  const wanted =
    batch.wantedOutputs.length === 0
      ? signature.outputs
      : signature.outputs.filter((output) => batch.wantedOutputs.includes(output.name));
  const states = signature.sequence?.states ?? NO_STATES;
  const names = wanted.map((output) => output.name);
  for (const { outputName } of states) if (!names.includes(outputName)) names.push(outputName);

  let values: InferenceSession.OnnxValueMapType;
  try {
    values = await loaded.session.run(feeds, names);
  } catch (cause) {
    throw new NereidError('INTERNAL', `onnx runtime error: ${ortText(cause)}`, { cause });
  }
  const outputs: JoinedTensor[] = [];
  for (const output of wanted) {
    const value = outputValue(signature, values, output.name);
    const batchOutput = signature.batchOutputs.find(({ target }) => target === output.name);
    outputs.push(
      batchOutput === undefined
        ? outputOf(output.name, plainShape(output, value.dims, batching), value)
        : scattered(signature, batch, output, batchOutput, value),
    );
  }
  if (states.length === 0) return { kind: 'joined', outputs };
  const given = states.map(({ outputName }) => {
    const value = outputValue(signature, values, outputName);
    return outputOf(outputName, value.dims, value);
  });
  return { kind: 'joined', outputs, states: given };
}

function outputValue(
  { name: model }: ModelSignature,
  values: InferenceSession.OnnxValueMapType,
  name: string,
): OrtTensor {
  const value = values[name];
  if (value === undefined) throw new NereidError('INTERNAL', `model '${model}' gave no output '${name}'`);
  return value;
}

/** The client's shape; a scalar of the graph has the dims of the config where these are all 1 (onnxruntime.cc, ReadOutputTensors). */
function plainShape(output: TensorSignature, shape: readonly number[], batching: boolean): readonly number[] {
  const isScalar = shape.length === 0 && !batching && output.dims.every((dim) => dim === 1);
  return isScalar ? output.dims : clientShape(output, shape, batching);
}

function feedBatchInputs(signature: ModelSignature, batch: Batch, feeds: Record<string, OrtTensor>): void {
  for (const made of batchInputTensors(signature, batch)) feeds[made.name] = feedOf(made, made.shape);
  for (const { targets, source } of signature.batchInputs) {
    const missing = targets.find((target) => feeds[target] === undefined);
    if (missing === undefined) continue;
    const text = `model '${signature.name}' takes '${missing}', which is made of input '${source}': that must be given`;
    throw new NereidError('INVALID_ARG', text, { field: source });
  }
}

/** The whole output as one run of elements, with the shape of each request's part of it. */
function scattered(
  signature: ModelSignature,
  batch: Batch,
  output: TensorSignature,
  batchOutput: BatchOutputSignature,
  value: OrtTensor,
): JoinedTensor {
  const shapes = scatteredShapes(signature, batch, output, batchOutput);
  if (shapes === undefined) {
    const text = `output '${output.name}' of model '${signature.name}' has the shape of input '${batchOutput.source}'`;
    throw new NereidError('INVALID_ARG', `${text}: that must be given`, { field: batchOutput.source });
  }
  return { ...outputOf(output.name, [elementCount(value.dims) ?? 0], value), shapes };
}

/** onnxruntime ends some of its texts with a line break. */
function ortText(cause: unknown): string {
  return (cause instanceof Error ? cause.message : String(cause)).trimEnd();
}

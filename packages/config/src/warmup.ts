/** A model's warm-up samples (ModelWarmup of model_config.proto): what an instance runs before it is READY. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Datatype, elementCount, errorInfo, fixedByteSize, REQUEST_DEFAULTS, type Tensor } from '@nereid/protocol';
import { sequenceTensors } from './check-onnx-sequence.ts';
import { checkRequest } from './check-request.ts';
import { mapEntry, refuseField } from './config-fault.ts';
import type { ModelConfig, ModelWarmup_Input } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import { pathInside } from './model-files.ts';
import { modelSignature } from './model-signature.ts';
import { protocolDatatype } from './protocol-datatype.ts';

/** The folder beside the config that `input_data_file` names files of. */
const WARMUP_FOLDER = 'warmup';
/** Bytes of an empty element of a BYTES tensor: its length. */
const EMPTY_ELEMENT_BYTES = 4;
const NO_REQUEST_ID = '[request id: <id_unknown>] ';

/** Where an input's data come from. `file` is a name below WARMUP_FOLDER. */
export type WarmupData =
  | { readonly kind: 'zero' }
  | { readonly kind: 'random' }
  | { readonly kind: 'file'; readonly file: string };

export interface WarmupInput {
  readonly name: string;
  readonly datatype: Datatype;
  /** Of one request, with a first dimension of 1 where the model batches. */
  readonly shape: readonly number[];
  readonly bytes: WarmupData;
}

/** Plain data, which can be sent to an instance's thread. */
export interface WarmupSample {
  readonly name: string;
  /** Requests of one execution, at least 1. */
  readonly batchSize: number;
  /** Executions, at least 1. */
  readonly count: number;
  readonly inputs: readonly WarmupInput[];
}

/**
 * The samples that instances run, in the config's order. One with batch_size 0 is none (Triton skips it).
 * Controls and states of sequences, which Triton needs in a sample, are left out: the server makes them here too.
 * Throws INVALID_ARG, naming model and sample, for an input without datatype or data, with a dimension
 * that is not given, and for a batch that the model does not take.
 */
export function warmupSamples(config: ModelConfig): WarmupSample[] {
  const made = sequenceTensors(config).inputs;
  return config.modelWarmup
    .filter(({ batchSize }) => batchSize > 0)
    .map((sample) => {
      const refuse = refuser(config, sample.name);
      const rowsMax = Math.max(1, config.maxBatchSize);
      if (sample.batchSize > rowsMax) {
        refuse('batch_size', `batch_size must be <= ${rowsMax} for '${config.name}', got ${sample.batchSize}`);
      }
      const names = Object.keys(sample.inputs)
        .filter((name) => !made.includes(name))
        .sort();
      const inputs = names.flatMap((name) => {
        const input = sample.inputs[name];
        return input === undefined ? [] : [warmupInput(config, name, input, refuse)];
      });
      return { name: sample.name, batchSize: sample.batchSize, count: Math.max(1, sample.count), inputs };
    });
}

type Refuse = (field: string, why: string) => never;

function refuser(config: ModelConfig, sample: string): Refuse {
  const index = config.modelWarmup.findIndex(({ name }) => name === sample);
  return (field, why) => {
    const text = `warmup sample '${sample}' of model '${config.name}' cannot be run: ${why}`;
    refuseField(`model_warmup[${index}].${field}`, text);
  };
}

function warmupInput(config: ModelConfig, name: string, input: ModelWarmup_Input, refuse: Refuse): WarmupInput {
  const path = mapEntry('inputs', name);
  const datatype = protocolDatatype(input.dataType);
  if (datatype === undefined) return refuse(`${path}.data_type`, `input '${name}' must specify 'data_type'`);
  const dims = input.dims.map(Number);
  if (dims.some((dim) => dim < 0)) {
    // Triton's words (backend_model_instance.cc).
    const text = `warmup setting expects all variable-size dimensions are specified for input '${name}'`;
    return refuse(`${path}.dims`, text);
  }
  const shape = config.maxBatchSize > 0 ? [1, ...dims] : dims;
  const { case: kind, value } = input.inputDataType;
  if (kind === 'inputDataFile') return { name, datatype, shape, bytes: { kind: 'file', file: value } };
  if (kind === 'zeroData') return { name, datatype, shape, bytes: { kind: 'zero' } };
  if (kind === 'randomData') return { name, datatype, shape, bytes: { kind: 'random' } };
  const text = `warmup setting expects input '${name}' to have input_data_type set: zero_data, random_data or`;
  return refuse(path, `${text} input_data_file`);
}

/**
 * Refuses samples that are no requests to the model: every input is checked as one of a client's,
 * and its file, if it has one, must be in the folder `warmup` and hold as many bytes as its dims say.
 * Throws a NereidError that names model and sample.
 */
export async function checkWarmup(config: ModelConfig, directory: string): Promise<void> {
  const signature = modelSignature(config);
  for (const sample of warmupSamples(config)) {
    const refuse = refuser(config, sample.name);
    const inputs: Tensor[] = [];
    let bytes = 0;
    const count = (size: number) => {
      bytes += size * sample.batchSize;
      if (bytes > LIMITS.warmup_bytes_max) refuse('inputs', `it needs more than ${LIMITS.warmup_bytes_max} bytes`);
    };
    for (const { name, datatype, shape, bytes: source } of sample.inputs) {
      const size = fixedByteSize(datatype, shape) ?? EMPTY_ELEMENT_BYTES * (elementCount(shape) ?? Number.MAX_VALUE);
      count(size);
      const path = source.kind === 'file' ? samplePath(directory, name, source.file, refuse) : undefined;
      const given = path === undefined ? size : await fileSize(path, name, refuse);
      const isText = datatype === 'BYTES';
      if (!isText && given !== size && source.kind === 'file')
        refuseSize({ name, file: source.file }, size, given, refuse);
      if (given > size) count(given - size);
      const data = isText && path !== undefined ? await readFile(path) : new Uint8Array(size);
      inputs.push({ name, datatype, shape, data });
    }
    // Samples are given to instances themselves, and are no steps of sequences.
    const rowsOnly = { ...signature, sequence: undefined };
    const wrong = checkRequest(rowsOnly, { ...REQUEST_DEFAULTS, modelName: config.name, modelVersion: '', inputs });
    if (wrong !== null) refuse('inputs', wrong.message.replace(NO_REQUEST_ID, ''));
  }
}

/** Triton's words for a file that is too short (backend_model_instance.cc); of a longer one it takes what it needs. */
function refuseSize(
  { name, file }: { readonly name: string; readonly file: string },
  wanted: number,
  given: number,
  refuse: Refuse,
): never {
  const has = given < wanted ? 'only has' : 'has';
  const text = `warmup setting expects ${wanted} bytes, but the data provided from ${file} ${has} ${given} bytes`;
  return refuse(filePath(name), text);
}

/** Files that the samples read, below the model's folder. */
export function warmupFiles(config: ModelConfig): string[] {
  const files = config.modelWarmup.flatMap(({ inputs }) =>
    Object.values(inputs).flatMap(({ inputDataType: { case: kind, value } }) =>
      kind === 'inputDataFile' ? [join(WARMUP_FOLDER, value)] : [],
    ),
  );
  return [...new Set(files)];
}

function filePath(name: string): string {
  return `${mapEntry('inputs', name)}.input_data_file`;
}

function samplePath(directory: string, name: string, file: string, refuse: Refuse): string {
  try {
    return pathInside(join(directory, WARMUP_FOLDER), file, 'input_data_file');
  } catch (outside) {
    return refuse(filePath(name), errorInfo(outside).message);
  }
}

async function fileSize(path: string, name: string, refuse: Refuse): Promise<number> {
  try {
    const found = await stat(path);
    if (found.isFile()) return found.size;
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    const why = missing ? 'No such file or directory' : errorInfo(error).message;
    return refuse(filePath(name), `failed to open text file for read ${path}: ${why}`);
  }
  return refuse(filePath(name), `'${path}' is not a regular file`);
}

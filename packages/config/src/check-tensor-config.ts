import { NereidError } from '@nereid/protocol';
import {
  DataType,
  type ModelConfig,
  type ModelInput,
  ModelInput_Format,
  type ModelOutput,
} from './gen/model_config_pb.ts';

type Side = 'input' | 'output';

/**
 * The rules of a model's inputs and outputs (core/src/model_config_utils.cc, ValidateIOShape,
 * ValidateModelInput and ValidateModelOutput), and that no name stands twice, which Triton lets pass.
 * Throws INVALID_ARG that names tensor, model and what to write.
 */
export function checkTensors(config: ModelConfig): void {
  checkNamesDiffer(config, 'input', config.input);
  checkNamesDiffer(config, 'output', config.output);
  for (const input of config.input) {
    checkTensor(config, 'input', input);
    const { format } = input;
    if ((format === ModelInput_Format.NHWC || format === ModelInput_Format.NCHW) && input.dims.length !== 3) {
      refuse(config, 'dims', `model input '${input.name}': NHWC/NCHW require 3 dims, got ${input.dims.length}`);
    }
  }
  for (const output of config.output) checkTensor(config, 'output', output);
}

function refuse(config: ModelConfig, field: string, text: string, fix = ''): never {
  throw new NereidError('INVALID_ARG', `${text} for ${config.name}${fix}`, { field });
}

function checkNamesDiffer(config: ModelConfig, side: Side, tensors: readonly (ModelInput | ModelOutput)[]): void {
  const names = new Set<string>();
  for (const { name } of tensors) {
    if (name !== '' && names.has(name)) refuse(config, side, `model ${side} '${name}' is specified more than once`);
    names.add(name);
  }
}

function checkTensor(config: ModelConfig, side: Side, io: ModelInput | ModelOutput): void {
  if (io.name === '') refuse(config, side, `model ${side} must specify 'name'`);
  const what = `model ${side} '${io.name}'`;
  if (io.dataType === DataType.TYPE_INVALID) refuse(config, 'data_type', `${what} must specify 'data_type'`);
  if (io.dims.length === 0) {
    const fix = '; a scalar is dims: [ 1 ] with reshape: { shape: [ ] } where max_batch_size > 0, else dims: [ 1 ]';
    refuse(config, 'dims', `${what} must specify 'dims'`, fix);
  }
  const variable = 'must be integer >= 1, or -1 to indicate a variable-size dimension';
  if (!io.dims.every(isDimension)) refuse(config, 'dims', `${what} dimension ${variable}`);
  if (io.isShapeTensor && config.platform !== 'tensorrt_plan') {
    const fix = '; leave is_shape_tensor out: it has rows as any tensor, or, with max_batch_size: 0, none';
    refuse(config, 'is_shape_tensor', `shape tensors are only supported for TensorRT platform, see ${what}`, fix);
  }
  if (io.isNonLinearFormatIo && config.platform !== 'tensorrt_plan') {
    const text = `${what} uses a non-linear IO format, which is only supported for TensorRT platform,`;
    refuse(config, 'is_non_linear_format_io', text);
  }
  if (io.reshape === undefined) return;
  if (io.reshape.shape.length === 0 && config.maxBatchSize === 0) {
    const text = 'cannot have empty reshape for non-batching model as scalar tensors are not supported';
    refuse(config, 'reshape', `${what} ${text}`);
  }
  if (!io.reshape.shape.every(isDimension)) refuse(config, 'reshape', `${what} reshape dimensions ${variable}`);
  checkReshape(config, what, io.dims, io.reshape.shape);
}

function isDimension(dim: bigint): boolean {
  return dim >= 1n || dim === -1n;
}

/** Element counts of the runs between variable dimensions: [2, 4, -1, 6] is [8, 6]. */
function runs(dims: readonly bigint[]): bigint[] {
  const counts: bigint[] = [];
  let count = 1n;
  for (const dim of dims) {
    if (dim === -1n) {
      counts.push(count);
      count = 1n;
    } else {
      count *= dim;
    }
  }
  counts.push(count);
  return counts;
}

/** Equal runs on both sides also cover the empty reshape, whose one run of 1 is a single element. */
function checkReshape(config: ModelConfig, what: string, dims: readonly bigint[], shape: readonly bigint[]): void {
  const before = runs(dims);
  const after = runs(shape);
  const lists = `; dims are [${dims.join(',')}], reshape is [${shape.join(',')}]`;
  // Triton takes a side without a variable dimension for one of another size.
  if (before.length !== after.length && before.length > 1 && after.length > 1) {
    const text = `${what} has different number of variable-size dimensions for dims and reshape`;
    refuse(config, 'reshape', text, lists);
  }
  if (before.length !== after.length || before.some((count, index) => count !== after[index])) {
    refuse(config, 'reshape', `${what} has different size for dims and reshape`, lists);
  }
}

import { type ConfigCheck, refuseField } from './config-fault.ts';
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
 * Each names tensor, model and what to write.
 */
export function tensorChecks(config: ModelConfig): ConfigCheck[] {
  return [
    () => checkNamesDiffer(config, 'input', config.input),
    () => checkNamesDiffer(config, 'output', config.output),
    ...config.input.map((input, index) => () => {
      checkTensor(config, 'input', input, index);
      const { format } = input;
      if ((format === ModelInput_Format.NHWC || format === ModelInput_Format.NCHW) && input.dims.length !== 3) {
        const text = `model input '${input.name}': NHWC/NCHW require 3 dims, got ${input.dims.length}`;
        refuse(config, `input[${index}].dims`, text);
      }
    }),
    ...config.output.map((output, index) => () => checkTensor(config, 'output', output, index)),
  ];
}

function refuse(config: ModelConfig, path: string, text: string, fix = ''): never {
  refuseField(path, `${text} for ${config.name}${fix}`);
}

function checkNamesDiffer(config: ModelConfig, side: Side, tensors: readonly (ModelInput | ModelOutput)[]): void {
  const names = new Set<string>();
  for (const [index, { name }] of tensors.entries()) {
    const path = `${side}[${index}]`;
    if (name !== '' && names.has(name)) refuse(config, path, `model ${side} '${name}' is specified more than once`);
    names.add(name);
  }
}

function checkTensor(config: ModelConfig, side: Side, io: ModelInput | ModelOutput, index: number): void {
  const path = `${side}[${index}]`;
  if (io.name === '') refuse(config, path, `model ${side} must specify 'name'`);
  const what = `model ${side} '${io.name}'`;
  if (io.dataType === DataType.TYPE_INVALID) refuse(config, `${path}.data_type`, `${what} must specify 'data_type'`);
  if (io.dims.length === 0) {
    const fix = '; a scalar is dims: [ 1 ] with reshape: { shape: [ ] } where max_batch_size > 0, else dims: [ 1 ]';
    refuse(config, `${path}.dims`, `${what} must specify 'dims'`, fix);
  }
  const variable = 'must be integer >= 1, or -1 to indicate a variable-size dimension';
  if (!io.dims.every(isDimension)) refuse(config, `${path}.dims`, `${what} dimension ${variable}`);
  if (io.isShapeTensor && config.platform !== 'tensorrt_plan') {
    const fix = '; leave is_shape_tensor out: it has rows as any tensor, or, with max_batch_size: 0, none';
    refuse(
      config,
      `${path}.is_shape_tensor`,
      `shape tensors are only supported for TensorRT platform, see ${what}`,
      fix,
    );
  }
  if (io.isNonLinearFormatIo && config.platform !== 'tensorrt_plan') {
    const text = `${what} uses a non-linear IO format, which is only supported for TensorRT platform,`;
    refuse(config, `${path}.is_non_linear_format_io`, text);
  }
  if (io.reshape === undefined) return;
  if (io.reshape.shape.length === 0 && config.maxBatchSize === 0) {
    const text = 'cannot have empty reshape for non-batching model as scalar tensors are not supported';
    refuse(config, `${path}.reshape`, `${what} ${text}`);
  }
  if (!io.reshape.shape.every(isDimension)) refuse(config, `${path}.reshape`, `${what} reshape dimensions ${variable}`);
  checkReshape(config, `${path}.reshape`, what, io.dims, io.reshape.shape);
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
function checkReshape(
  config: ModelConfig,
  path: string,
  what: string,
  dims: readonly bigint[],
  shape: readonly bigint[],
): void {
  const before = runs(dims);
  const after = runs(shape);
  const lists = `; dims are [${dims.join(',')}], reshape is [${shape.join(',')}]`;
  // Triton takes a side without a variable dimension for one of another size.
  if (before.length !== after.length && before.length > 1 && after.length > 1) {
    const text = `${what} has different number of variable-size dimensions for dims and reshape`;
    refuse(config, path, text, lists);
  }
  if (before.length !== after.length || before.some((count, index) => count !== after[index])) {
    refuse(config, path, `${what} has different size for dims and reshape`, lists);
  }
}

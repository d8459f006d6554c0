import { refuseField } from './config-fault.ts';
import {
  type BatchInput,
  type BatchOutput,
  DataType,
  BatchInput_Kind as InputKind,
  type ModelConfig,
  BatchOutput_Kind as OutputKind,
} from './gen/model_config_pb.ts';

type BatchIo = BatchInput | BatchOutput;

/** Triton takes the first dimension for that of rows where there are none. */
const ITEM_KINDS = new Set([InputKind.BATCH_ITEM_SHAPE, InputKind.BATCH_ITEM_SHAPE_FLATTEN]);

/**
 * The rules of batch inputs and outputs (core/src/model_config_utils.cc, ValidateBatchIO), and five
 * that Triton leaves to the run: each has a target, no target stands twice, a batch input's target
 * is no input of requests, item shapes need rows, and a batch output's source has the dimensions
 * that it is to give. To be
 * called with the inputs and outputs complete. Throws INVALID_ARG for the first rule broken.
 */
export function checkBatchIo(config: ModelConfig): void {
  const inputs = new Set(config.input.map((input) => input.name));
  const fed = new Map([...inputs].map((name) => [name, 'input']));
  for (const [index, batchInput] of config.batchInput.entries()) {
    const path = `batch_input[${index}]`;
    const kind = InputKind[batchInput.kind];
    if (kind === undefined) refuse(config, `${path}.kind`, `unknown batch input kind '${batchInput.kind}'`);
    checkSource(config, path, batchInput, kind, inputs);
    if (config.maxBatchSize === 0 && ITEM_KINDS.has(batchInput.kind)) {
      refuse(config, `${path}.kind`, `batch input kind '${kind}' tells of rows, so it needs max_batch_size > 0`);
    }
    const { dataType } = batchInput;
    if (dataType !== DataType.TYPE_INT32 && dataType !== DataType.TYPE_FP32) {
      const got = `, got ${DataType[dataType]} for '${batchInput.targetName.join("', '")}'`;
      refuse(config, `${path}.data_type`, `batch input data type must be TYPE_INT32 or TYPE_FP32${got}`);
    }
    for (const target of batchInput.targetName) {
      const taken = fed.get(target);
      if (taken === 'input') {
        const why = 'the server makes it, so it must not be listed as an input';
        refuse(config, `${path}.target_name`, `target name '${target}' of a batch input is also an input: ${why}`);
      }
      if (taken !== undefined)
        refuse(config, `${path}.target_name`, `target input name '${target}' can only be specified once`);
      fed.set(target, 'batch input');
    }
  }
  const targets = new Set<string>();
  for (const [index, batchOutput] of config.batchOutput.entries()) {
    const path = `batch_output[${index}]`;
    const kind = OutputKind[batchOutput.kind];
    if (kind === undefined) refuse(config, `${path}.kind`, `unknown batch output kind '${batchOutput.kind}'`);
    checkSource(config, path, batchOutput, kind, inputs);
    for (const target of batchOutput.targetName) {
      if (targets.has(target)) {
        refuse(config, `${path}.target_name`, `target output name '${target}' can only be specified once`);
      }
      targets.add(target);
      checkScattered(config, path, target, batchOutput.sourceInput[0] ?? '');
    }
  }
}

function refuse(config: ModelConfig, path: string, text: string): never {
  refuseField(path, `${text} for ${config.name}`);
}

function checkSource(config: ModelConfig, path: string, io: BatchIo, kind: string, inputs: ReadonlySet<string>): void {
  const what = path.replace('_', ' ').replace(/\[.*/, '');
  const { length } = io.sourceInput;
  if (length !== 1)
    refuse(config, `${path}.source_input`, `${what} kind '${kind}' expects 1 source input, got ${length}`);
  const unknown = io.sourceInput.find((name) => !inputs.has(name));
  if (unknown !== undefined) {
    const known = inputs.size === 0 ? ' (no input is listed)' : ` (inputs are '${[...inputs].join("', '")}')`;
    refuse(config, `${path}.source_input`, `unknown source input name '${unknown}'${known}`);
  }
  if (io.targetName.length === 0) refuse(config, path, `${what} kind '${kind}' must specify 'target_name'`);
}

/** A variable dimension takes the value of the same dimension of the source, as the model sees both. */
function checkScattered(config: ModelConfig, path: string, target: string, source: string): void {
  const output = config.output.find((candidate) => candidate.name === target);
  if (output === undefined) refuse(config, `${path}.target_name`, `unknown target output name '${target}'`);
  const input = config.input.find((candidate) => candidate.name === source);
  const has = (input?.reshape?.shape ?? input?.dims ?? []).length;
  const axis = (output.reshape?.shape ?? output.dims).lastIndexOf(-1n);
  if (axis < has) return;
  const text = `dimension ${axis} of batch output '${target}' is variable, but its source input '${source}' has only`;
  refuse(config, path, `${text} ${has} dimensions`);
}

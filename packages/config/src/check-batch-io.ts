import { NereidError } from '@nereid/protocol';
import {
  type BatchInput,
  type BatchOutput,
  DataType,
  BatchInput_Kind as InputKind,
  type ModelConfig,
  BatchOutput_Kind as OutputKind,
} from './gen/model_config_pb.ts';

type BatchIo = BatchInput | BatchOutput;
type Side = 'batch_input' | 'batch_output';

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
  for (const batchInput of config.batchInput) {
    const kind = InputKind[batchInput.kind];
    if (kind === undefined) refuse(config, 'batch_input', `unknown batch input kind '${batchInput.kind}'`);
    checkSource(config, 'batch_input', batchInput, kind, inputs);
    if (config.maxBatchSize === 0 && ITEM_KINDS.has(batchInput.kind)) {
      refuse(config, 'batch_input', `batch input kind '${kind}' tells of rows, so it needs max_batch_size > 0`);
    }
    const { dataType } = batchInput;
    if (dataType !== DataType.TYPE_INT32 && dataType !== DataType.TYPE_FP32) {
      const got = `, got ${DataType[dataType]} for '${batchInput.targetName.join("', '")}'`;
      refuse(config, 'batch_input', `batch input data type must be TYPE_INT32 or TYPE_FP32${got}`);
    }
    for (const target of batchInput.targetName) {
      const taken = fed.get(target);
      if (taken === 'input') {
        const why = 'the server makes it, so it must not be listed as an input';
        refuse(config, 'batch_input', `target name '${target}' of a batch input is also an input: ${why}`);
      }
      if (taken !== undefined)
        refuse(config, 'batch_input', `target input name '${target}' can only be specified once`);
      fed.set(target, 'batch input');
    }
  }
  const targets = new Set<string>();
  for (const batchOutput of config.batchOutput) {
    const kind = OutputKind[batchOutput.kind];
    if (kind === undefined) refuse(config, 'batch_output', `unknown batch output kind '${batchOutput.kind}'`);
    checkSource(config, 'batch_output', batchOutput, kind, inputs);
    for (const target of batchOutput.targetName) {
      if (targets.has(target)) {
        refuse(config, 'batch_output', `target output name '${target}' can only be specified once`);
      }
      targets.add(target);
      checkScattered(config, target, batchOutput.sourceInput[0] ?? '');
    }
  }
}

function refuse(config: ModelConfig, field: Side, text: string): never {
  throw new NereidError('INVALID_ARG', `${text} for ${config.name}`, { field });
}

function checkSource(config: ModelConfig, side: Side, io: BatchIo, kind: string, inputs: ReadonlySet<string>): void {
  const what = side.replace('_', ' ');
  const { length } = io.sourceInput;
  if (length !== 1) refuse(config, side, `${what} kind '${kind}' expects 1 source input, got ${length}`);
  const unknown = io.sourceInput.find((name) => !inputs.has(name));
  if (unknown !== undefined) {
    const known = inputs.size === 0 ? ' (no input is listed)' : ` (inputs are '${[...inputs].join("', '")}')`;
    refuse(config, side, `unknown source input name '${unknown}'${known}`);
  }
  if (io.targetName.length === 0) refuse(config, side, `${what} kind '${kind}' must specify 'target_name'`);
}

/** A variable dimension takes the value of the same dimension of the source, as the model sees both. */
function checkScattered(config: ModelConfig, target: string, source: string): void {
  const output = config.output.find((candidate) => candidate.name === target);
  if (output === undefined) refuse(config, 'batch_output', `unknown target output name '${target}'`);
  const input = config.input.find((candidate) => candidate.name === source);
  const has = (input?.reshape?.shape ?? input?.dims ?? []).length;
  const axis = (output.reshape?.shape ?? output.dims).lastIndexOf(-1n);
  if (axis < has) return;
  const text = `dimension ${axis} of batch output '${target}' is variable, but its source input '${source}' has only`;
  refuse(config, 'batch_output', `${text} ${has} dimensions`);
}

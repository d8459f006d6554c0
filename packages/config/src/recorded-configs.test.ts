/** What a real Triton 2.51.0 made of each config, recorded once: see test/conformance/README.md. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkEnsembleModels } from './check-ensemble-models.ts';
import { completeEnsemble } from './complete-ensemble.ts';
import { ensembleReadiness } from './ensemble-readiness.ts';
import { modelConfigJson } from './model-config-json.ts';
import type { ModelRecord } from './model-record.ts';
import { readModel } from './read-model.ts';

interface RecordedConfig {
  readonly name: string;
  readonly config: string;
  /** The model file's name, model.py without it. */
  readonly model?: string;
  readonly files?: Readonly<Record<string, string>>;
  /** As GET …/config printed it. */
  readonly loaded?: unknown;
  /** Why it was not loaded. */
  readonly refused?: string;
}

/** The recordings are of Python models, which this backend has no need to run: here they are JavaScript ones. */
const recorded: readonly RecordedConfig[] = readFileSync(new URL('./recorded-configs.jsonl', import.meta.url), 'utf8')
  .trim()
  .replaceAll('.py', '.mjs')
  .replaceAll('\\"python\\"', '\\"javascript\\"')
  .replaceAll('"python"', '"javascript"')
  .replaceAll(String.raw`'py' \"thon\"`, String.raw`'java' \"script\"`)
  .split('\n')
  .map((line) => JSON.parse(line));

/** Where Nereid differs on purpose: what it says instead. */
const DIFFERENT: Readonly<Record<string, RegExp>> = {
  // Triton leaves these to the run.
  big_dims:
    /^model input 'IN' has dimension 9007199254740993 for big_dims; the largest that can be served is 2\^53 - 1/,
  input_twice: /^model input 'IN' is specified more than once for input_twice/,
  x_no_output: /^model 'x_no_output' must specify its 'output' in config\.pbtxt/,
  x_control_two_kinds: /^sequence batching control tensor 'A' is specified for multiple control kinds/,
  x_state_no_input: /^model state '' must specify 'input_name'|^model state must specify 'input_name'/,
  x_state_no_output: /^model state 'SI' must specify 'output_name'/,
  x_state_no_type: /^model state 'SI' must specify 'data_type'/,
  x_state_dim: /^model state 'SI' dimension must be integer >= 1, or -1/,
  x_state_growable: /^In order to 'use_growable_memory', you must also enable 'use_same_buffer_for_input_output'/,
  x_state_growable_cpu: /^'use_growable_memory' can only work with KIND_GPU model instances/,
  x_state_twice: /^State input name 'SI' specified more than once/,
  // The same in a text that says more, or that is without its typing error.
  x_format: /^model input 'IN': NHWC\/NCHW require 3 dims, got 2 for x_format/,
  x_shape_tensor: /^shape tensors are only supported for TensorRT platform, see model input 'IN' for x_shape_tensor/,
  x_output_shape_tensor: /^shape tensors are only supported for TensorRT platform, see model output 'OUT'/,
  x_non_linear: /^model input 'IN' uses a non-linear IO format, which is only supported for TensorRT platform/,
  x_batch_input_unknown: /^unknown source input name 'NO' \(inputs are 'IN'\) for x_batch_input_unknown/,
  x_batch_input_type: /^batch input data type must be TYPE_INT32 or TYPE_FP32, got TYPE_INT64 for 'N'/,
  x_batch_output_source: /^unknown source input name 'NO' \(inputs are 'IN'\) for x_batch_output_source/,
  x_initial_data: /^initial_state setting expects state 'SI' to have state_data set/,
  x_initial_short: /^initial_state setting expects 8 bytes, but the data provided from four only has 4 bytes/,
  x_gpu_unknown: /specifies invalid or unsupported gpu id 3\. The GPUs of this machine are: none/,
  x_profile: /and platform {2}specifies profile field which is only supported for TensorRT models/,
  x_warmup_type: /^warmup sample 'w' of model 'x_warmup_type' cannot be run: input 'IN' must specify 'data_type'/,
  x_warmup_data: /warmup setting expects input 'IN' to have input_data_type set: zero_data, random_data or/,
  x_warmup_short: /warmup setting expects 16 bytes, but the data provided from raw only has 4 bytes/,
  x_warmup_batch_over: /^warmup sample 'w' of model 'x_warmup_batch_over' cannot be run: batch_size must be <= 2/,
  x_warmup_shape: /unexpected shape for input 'IN' for model 'x_warmup_shape'\. Expected \[-1,4\], got \[1,5\]/,
  // Triton tells these in its log alone.
  x_two_schedulers: /:6:1: oneof "scheduling_choice" is already set: only one of dynamic_batching, sequence_batching, /,
  x_syntax_unknown: /:4:1: unknown field "max_batchsize" in ModelConfig; did you mean "max_batch_size"\?/,
  x_syntax_brace: /:4:22: unexpected end of input, expected "}" \("{" of line 4:12 is not closed\)/,
  x_syntax_placeholder: /:4:17: max_batch_size: unexpected "\$"/,
  x_syntax_twice: /:5:1: non-repeated field "max_batch_size" is repeated/,
};

let root = '';
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-configs-'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function read(name: string): Promise<ModelRecord | string> {
  const one = recorded.find((each) => each.name === name);
  if (one === undefined) return 'no such model';
  const directory = join(root, name);
  const files = { 'config.pbtxt': one.config, [`1/${one.model ?? 'model.mjs'}`]: '', ...one.files };
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, file)), { recursive: true });
    writeFileSync(join(directory, file), text);
  }
  try {
    const source = await readModel({ name, directory }, { autoComplete: true, gpus: 0 });
    return { ...source, versions: source.versions.map((version) => ({ version, state: 'READY', reason: '' })) };
  } catch (error) {
    return (error instanceof Error ? error.message : String(error)).replaceAll(`${root}/`, '');
  }
}

async function outcome(one: RecordedConfig): Promise<{ readonly loaded: unknown } | { readonly refused: string }> {
  const record = await read(one.name);
  if (typeof record === 'string') return { refused: record };
  if (!one.config.includes('ensemble_scheduling')) return { loaded: JSON.parse(modelConfigJson(record.config)) };
  const models = new Map<string, ModelRecord>([[one.name, record]]);
  for (const [, model = ''] of one.config.matchAll(/model_name: "([^"]*)"/g)) {
    const composing = models.get(model) ?? (await read(model));
    if (typeof composing !== 'string') models.set(model, composing);
  }
  const find = (model: string) => models.get(model);
  const refused = checkEnsembleModels(record.config, find) ?? ensembleReadiness(record.config, find);
  if (refused !== undefined) return { refused };
  // The field is newer than what was recorded.
  const printed = modelConfigJson(completeEnsemble(record, find).config).replace(',"max_inflight_requests":0', '');
  return { loaded: JSON.parse(printed) };
}

test.each(recorded)('$name', async (one) => {
  const ours = await outcome(one);
  const different = DIFFERENT[one.name];
  if (different !== undefined) expect(ours).toEqual({ refused: expect.stringMatching(different) });
  else if (one.refused === undefined) expect(ours).toEqual({ loaded: one.loaded });
  else expect(ours).toEqual({ refused: expect.stringContaining(one.refused) });
});

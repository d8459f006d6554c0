import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';
import { addStepped, begins, waits } from './stepped-model.ts';

// Bug cases about configurations, loaded over HTTP, and about what is counted; each name begins with the case's id.

/** Longer than any test waits. */
const LONG_US = 600_000_000;
const MIXED_REQUESTS = 100;

const ECHO =
  'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get("VALUE") } }));';
const VALUE = '{ name: "VALUE" data_type: TYPE_FP32 dims: [ 1 ] }';
const IO = `input ${VALUE}\noutput ${VALUE}`;
const JAVASCRIPT = `backend: "javascript"\n${IO}`;

/** A step that reads and writes the ensemble's tensors of these names. */
const step = (reads: string, writes: string, model = 'part') =>
  `step { model_name: "${model}" model_version: -1 input_map { key: "VALUE" value: "${reads}" } output_map { key: "VALUE" value: "${writes}" } }`;
const ensemble = (steps: string, io = IO) => `platform: "ensemble"\n${io}\nensemble_scheduling { ${steps} }`;

interface WrittenModel {
  readonly config: string | null;
  /** Version folders, each with the module; `1` by default. */
  readonly folders?: readonly string[];
  readonly module?: string;
  readonly files?: Readonly<Record<string, string>>;
}

const MODELS: Readonly<Record<string, WrittenModel>> = {
  part: { config: JAVASCRIPT },
  placeholder: { config: `${JAVASCRIPT}\nmax_batch_size: \${mbs}` },
  unknown_field: { config: `${JAVASCRIPT}\nmax_batchsize: 4` },
  unclosed: { config: `${JAVASCRIPT}\nparameters {\n  key: "a"\n` },
  preferred_over: { config: `${JAVASCRIPT}\nmax_batch_size: 2\ndynamic_batching { preferred_batch_size: [ 4 ] }` },
  preferred_alone: { config: `${JAVASCRIPT}\ndynamic_batching { preferred_batch_size: [ 4 ] }` },
  negative: { config: `${JAVASCRIPT}\nmax_batch_size: -2` },
  two_schedulers: { config: `${JAVASCRIPT}\ndynamic_batching { }\nsequence_batching { }` },
  nobody_writes: {
    config: ensemble(
      `${step('NOWHERE', 'OUT')} ${step('IN', 'SPARE')}`,
      'input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }\noutput { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }',
    ),
  },
  unknown_model: {
    config: ensemble(
      step('VALUE', 'OUT', 'nowhere'),
      `input ${VALUE}\noutput { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }`,
    ),
  },
  other_type: {
    config: ensemble(
      step('WHOLE', 'OUT'),
      'input { name: "WHOLE" data_type: TYPE_INT64 dims: [ 1 ] }\noutput { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }',
    ),
  },
  version_absent: { config: `${JAVASCRIPT}\nversion_policy { specific { versions: [ 7 ] } }` },
  no_number: { config: JAVASCRIPT, folders: ['abc'] },
  leading_zero: { config: JAVASCRIPT, folders: ['01', '2'] },
  long_number: { config: JAVASCRIPT, folders: ['20231128170005'] },
  no_version: { config: JAVASCRIPT, folders: [] },
  completes_itself: {
    config: null,
    module: `${ECHO} export const autoComplete = (config) => { const io = { name: 'VALUE', data_type: 'TYPE_FP32', dims: [1] };
      return { ...config, max_batch_size: 4, input: [io], output: [io], dynamic_batching: {} }; };`,
  },
  completes_wrongly: {
    config: null,
    module: `${ECHO} export const autoComplete = (config) => ({ ...config, max_batchsize: 4 });`,
  },
  named_config: {
    config: JAVASCRIPT,
    files: { 'configs/big.pbtxt': `${JAVASCRIPT}\nmax_batch_size: 64` },
  },
};

function write(path: string, name: string, { config, folders = ['1'], module = ECHO, files = {} }: WrittenModel): void {
  const all: Record<string, string> = { ...files, ...(config === null ? {} : { 'config.pbtxt': `${config}\n` }) };
  for (const folder of folders) all[`${folder}/model.mjs`] = module;
  mkdirSync(join(path, name), { recursive: true });
  for (const [file, text] of Object.entries(all)) {
    mkdirSync(dirname(join(path, name, file)), { recursive: true });
    writeFileSync(join(path, name, file), text);
  }
}

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  const two = addStepped(folder, 'two_wait', {
    maxBatchSize: 1,
    config: 'dynamic_batching { default_queue_policy { max_queue_size: 2 } }',
  });
  const rows = addStepped(folder, 'rows', { maxBatchSize: 8, config: 'dynamic_batching { }' });
  const fives = addStepped(folder, 'fives', {
    maxBatchSize: 5,
    config: `dynamic_batching { max_queue_delay_microseconds: ${LONG_US} }`,
  });
  const mixed = addStepped(folder, 'mixed', { maxBatchSize: 8, instances: 2, config: 'dynamic_batching { }' });
  folder.addJavaScript(
    'failing',
    `export function execute(requests) {
       if (requests.some(({ inputs }) => inputs.get('VALUE').data[0] === 2)) throw new Error('raised');
       return requests.map(() => new Error('returned'));
     }`,
  );
  const counted = ['two_wait', 'rows', 'fives', 'mixed', 'failing', 'part'];
  let served: Deployment;

  beforeAll(async () => {
    for (const [name, model] of Object.entries(MODELS)) write(folder.path, name, model);
    for (const { letGo } of [rows, fives, mixed]) letGo();
    served = await deploy(
      mode,
      [folder.path],
      ['--model-control-mode=explicit', '--model-config-name=big', ...counted.map((name) => `--load-model=${name}`)],
    );
  });
  afterAll(async () => {
    two.letGo();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const load = async (name: string): Promise<{ readonly status: number; readonly error: string }> => {
    const response = await fetch(`${served.http}/v2/repository/models/${name}/load`, { method: 'POST' });
    const text = await response.text();
    return { status: response.status, error: text === '' ? '' : (JSON.parse(text).error ?? '') };
  };
  // biome-ignore lint/suspicious/noExplicitAny: what the test expects of it says what it is
  const get = async (path: string): Promise<any> => (await fetch(`${served.http}/v2/models/${path}`)).json();
  const send = (name: string, values: readonly number[], type = 'INT32') =>
    infer(served.http, name, oneInput('VALUE', type, name === 'part' ? [1] : [values.length, 1], values));
  const count = (name: string, model: string, labels = {}) => metric(served.metrics, name, { model, ...labels });

  test.each([
    ['BC-094: a placeholder', 'placeholder', /placeholder\/config\.pbtxt:4:17: max_batch_size: unexpected "\$"/],
    [
      'BC-095: an unknown field',
      'unknown_field',
      /unknown_field\/config\.pbtxt:4:1: unknown field "max_batchsize" in ModelConfig; did you mean "max_batch_size"\?/,
    ],
    ['BC-095: an unclosed brace', 'unclosed', /unclosed\/config\.pbtxt:7:1: .*\("\{" of line 4:12 is not closed\)/],
    [
      'BC-097: a preferred size over max_batch_size',
      'preferred_over',
      /preferred size must be <= max batch size for preferred_over, got 4 with max_batch_size 2 \(.*config\.pbtxt:5:44\)/,
    ],
    [
      'BC-097: a preferred size without batches',
      'preferred_alone',
      /preferred size must be <= max batch size for preferred_alone, got 4 with max_batch_size 0/,
    ],
    [
      'BC-097: a negative max_batch_size',
      'negative',
      /'max_batch_size' must be non-negative value for negative, got -2 \(.*config\.pbtxt:4:17\)/,
    ],
    [
      'BC-098: two schedulers',
      'two_schedulers',
      /config\.pbtxt:5:1: oneof "scheduling_choice" is already set: only one/,
    ],
    [
      'BC-100: a tensor that nobody writes',
      'nobody_writes',
      /output 'OUT' .* is not written: .*'NOWHERE', is not connected \(.*config\.pbtxt:3:\d+\)/,
    ],
    [
      'BC-100: a model that there is not',
      'unknown_model',
      /contains models that are not available or ambiguous: nowhere/,
    ],
    [
      'BC-100: a tensor of another datatype',
      'other_type',
      /ensemble tensor WHOLE: inconsistent data type: TYPE_INT64 is inferred from model other_type while TYPE_FP32/,
    ],
    [
      'BC-101: a version that is absent',
      'version_absent',
      /at least one version must be available under the version policy of model 'version_absent'; it has version 1/,
    ],
    [
      'BC-101: a folder that is no version',
      'no_number',
      /version policy of model 'no_number'; it has no version folder/,
    ],
    ['BC-101: no folder', 'no_version', /version policy of model 'no_version'; it has no version folder/],
    [
      'a configuration that its model completes wrongly',
      'completes_wrongly',
      /autoComplete of .*model\.mjs:1:\d+: unknown field "max_batchsize" in ModelConfig/,
    ],
  ])('%s fails the load with its text', async (_name, model, expected) => {
    const { status, error } = await load(model);
    expect(error).toMatch(expected);
    expect(status).toBe(400);
    expect((await fetch(`${served.http}/v2/models/${model}/ready`)).status).toBe(400);
  });

  test('BC-101: folders 01 and 2 are version 2, and a long number is one', async () => {
    expect([await load('leading_zero'), await load('long_number')]).toEqual([
      { status: 200, error: '' },
      { status: 200, error: '' },
    ]);
    expect([await get('leading_zero'), await get('long_number')]).toMatchObject([
      { versions: ['2'] },
      { versions: ['20231128170005'] },
    ]);
  });

  test('a model completes its configuration, and is served so', async () => {
    expect(await load('completes_itself')).toEqual({ status: 200, error: '' });
    expect(await get('completes_itself/config')).toMatchObject({
      max_batch_size: 4,
      dynamic_batching: { preferred_batch_size: [4] },
      output: [{ name: 'VALUE', dims: [1] }],
    });
    expect((await send('completes_itself', [1.5, 2.5], 'FP32')).outputs.get('VALUE')?.data).toEqual([1.5, 2.5]);
  });

  test('a named configuration goes before the other, where it is there', async () => {
    expect(await load('named_config')).toEqual({ status: 200, error: '' });
    expect([await get('named_config/config'), await get('part/config')]).toMatchObject([
      { max_batch_size: 64 },
      { max_batch_size: 0 },
    ]);
  });

  test('BC-109: what waits is seen in the metrics, and gone after', async () => {
    const first = send('two_wait', [1]);
    await begins(two, 1);
    const others = [send('two_wait', [2]), send('two_wait', [3])];
    await waits(served.metrics, two, 2);
    two.letGo();
    expect((await Promise.all([first, ...others])).map(({ status }) => status)).toEqual([200, 200, 200]);
    await waits(served.metrics, two, 0);
  });

  test('BC-110: an error that a model returns counts as a failure, as one that it raises', async () => {
    for (const value of [1, 2]) {
      const answer = await infer(served.http, 'failing', oneInput('VALUE', 'INT32', [1], [value]));
      expect(answer.error).toMatch(value === 1 ? /returned/ : /raised/);
      expect(await count('nv_inference_request_failure', 'failing', { reason: 'BACKEND' })).toBe(value);
    }
    expect(await count('nv_inference_request_success', 'failing')).toBe(0);
  });

  test('BC-112: requests, rows and executions are counted apart', async () => {
    const seen = async (model: string) => [
      await count('nv_inference_request_success', model),
      await count('nv_inference_count', model),
      await count('nv_inference_exec_count', model),
    ];
    await send('rows', [1, 2, 3]);
    expect(await seen('rows')).toEqual([1, 3, 1]);
    await Promise.all([1, 2, 3, 4, 5].map((value) => send('fives', [value])));
    expect(await seen('fives')).toEqual([5, 5, 1]);
  });

  test('BC-113: the statistics of batches add up', async () => {
    const requests = Array.from({ length: MIXED_REQUESTS }, (_, index) =>
      Array.from({ length: 1 + (index % 4) }, () => index),
    );
    const answers = await Promise.all(requests.map((values) => send('mixed', values)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    const [stats] = (await get('mixed/stats')).model_stats;
    const batches: { batch_size: number; compute_infer: { count: number } }[] = stats.batch_stats;
    const sum = (of: (batch: (typeof batches)[number]) => number) => batches.reduce((all, batch) => all + of(batch), 0);
    expect(sum(({ compute_infer: { count: runs } }) => runs)).toBe(stats.execution_count);
    expect(sum(({ batch_size: size, compute_infer: { count: runs } }) => size * runs)).toBe(stats.inference_count);
    expect(stats.inference_count).toBe(requests.flat().length);
    expect(stats.inference_stats.success.count).toBe(MIXED_REQUESTS);
    expect(stats.execution_count).toBeLessThan(MIXED_REQUESTS);
  });
});

/** Which requests share a batch by their shapes and inputs, and batches whose requests differ in shape. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { fp32, type GrpcClient, type GrpcRequest, type GrpcResponse, grpcClient, int32 } from './grpc-client.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

const FIXTURES = join(ROOT, 'packages/backends/fixtures');
const FIXTURE = join(FIXTURES, 'ragged');
/** Longer than the test: a batch that is not closed by its size or by what comes next fails it. */
const DELAY = 'max_queue_delay_microseconds: 60000000';

/** SEEN is per row the number of the execution, its requests, its own shape and the batch input of all. */
const SEEING = `
  let executions = 0;
  export const execute = (requests, batchInputs) => {
    executions++;
    return requests.map(({ inputs }) => {
      const [rows, ...rest] = inputs.get('A').shape;
      const seen = [executions, requests.length, ...rest, ...(batchInputs.get('ENDS')?.data ?? [])];
      const data = Int32Array.from(Array.from({ length: rows }, () => seen).flat());
      return { outputs: { SEEN: { datatype: 'INT32', shape: [rows, seen.length], data } } };
    });
  };`;

function addSeeing(folder: ModelFolder, name: string, config: string): void {
  mkdirSync(join(folder.path, name, '1'), { recursive: true });
  writeFileSync(join(folder.path, name, '1', 'model.mjs'), SEEING);
  writeFileSync(
    join(folder.path, name, 'config.pbtxt'),
    `backend: "javascript" max_batch_size: 8 instance_group { count: 1 kind: KIND_CPU } ${config}
    output { name: "SEEN" data_type: TYPE_INT32 dims: -1 }`,
  );
}

/** The ONNX model with every kind of batch input. */
function addRagged(folder: ModelFolder): void {
  cpSync(FIXTURE, join(folder.path, 'ragged'), { recursive: true });
  const config = readFileSync(join(FIXTURE, 'config.pbtxt'), 'utf8');
  const batching = `dynamic_batching { preferred_batch_size: 3 ${DELAY} }`;
  writeFileSync(join(folder.path, 'ragged', 'config.pbtxt'), `${config}\n${batching}\n`);
}

function request(model: string, inputs: Readonly<Record<string, readonly number[]>>): GrpcRequest {
  return {
    model_name: model,
    inputs: Object.entries(inputs).map(([name, shape]) => ({ name, datatype: 'INT32', shape })),
    raw_input_contents: Object.values(inputs).map((shape) =>
      int32(...new Array(shape.reduce((a, b) => a * b, 1)).fill(0)),
    ),
  };
}

const ints = (response: GrpcResponse | undefined, output = 0) => {
  const data = response?.raw_output_contents?.[output] ?? Buffer.alloc(0);
  return Array.from({ length: data.byteLength / 4 }, (_, index) => data.readInt32LE(4 * index));
};
const floats = (response: GrpcResponse | undefined) => {
  const data = response?.raw_output_contents?.[0] ?? Buffer.alloc(0);
  return Array.from({ length: data.byteLength / 4 }, (_, index) => data.readFloatLE(4 * index));
};

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let client: GrpcClient;

  beforeAll(async () => {
    folder = createModelFolder();
    const twos = `dynamic_batching { preferred_batch_size: 2 ${DELAY} }`;
    addSeeing(folder, 'shapes', `${twos} input { name: "A" data_type: TYPE_INT32 dims: -1 }`);
    addSeeing(
      folder,
      'sets',
      `${twos} input { name: "A" data_type: TYPE_INT32 dims: 1 } input { name: "B" data_type: TYPE_INT32 dims: 1 optional: true }`,
    );
    addSeeing(
      folder,
      'seeing',
      `dynamic_batching { preferred_batch_size: 3 ${DELAY} }
      input { name: "A" data_type: TYPE_INT32 dims: [ -1, 2 ] allow_ragged_batch: true }
      batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "ENDS" data_type: TYPE_INT32 source_input: "A" }`,
    );
    addRagged(folder);
    cpSync(join(FIXTURES, 'turned'), join(folder.path, 'turned'), { recursive: true });
    addSeeing(
      folder,
      'reshaped',
      `${twos} input { name: "A" data_type: TYPE_INT32 dims: [ -1 ] reshape { shape: [ 1, -1, 1 ] } }`,
    );
    served = await deploy(mode, [folder.path]);
    client = grpcClient(served.gateways[0]?.grpc ?? '');
  });
  afterAll(async () => {
    client.close();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  /** Sends them in this order by one stream; their answers come in the same. */
  async function ask(requests: readonly GrpcRequest[]): Promise<(GrpcResponse | undefined)[]> {
    const stream = client.stream();
    for (const each of requests) stream.send(each);
    stream.halfClose();
    return (await stream.rest()).map((answer) => {
      expect(answer.error_message ?? '').toBe('');
      return answer.infer_response;
    });
  }

  /** How many requests each one's execution had; and that those which differ had executions of their own. */
  async function shared(requests: readonly GrpcRequest[]): Promise<(number | undefined)[]> {
    const seen = (await ask(requests)).map((response) => ints(response));
    const counts = seen.map(([, count]) => count);
    const executions = new Set(seen.map(([execution]) => execution));
    expect(executions.size).toBe(counts.reduce((sum: number, count = 1) => sum + 1 / count, 0));
    return counts;
  }

  // The last has two rows, which closes the batch before it and is itself one of the preferred size.
  const shapes = (...sizes: readonly number[]) => [
    ...sizes.map((size) => request('shapes', { A: [1, size] })),
    request('shapes', { A: [2, 9] }),
  ];
  const sets = (...names: readonly string[]) => [
    ...names.map((set) => request('sets', set === 'AB' ? { A: [1, 1], B: [1, 1] } : { A: [1, 1] })),
    request('sets', names.at(-1) === 'AB' ? { A: [2, 1] } : { A: [2, 1], B: [2, 1] }),
  ];

  test.each<[rule: string, requests: readonly GrpcRequest[], shared: readonly number[]]>([
    ['shapes a, b, a, b are four executions', shapes(1, 2, 1, 2), [1, 1, 1, 1, 1]],
    ['a later match is not pulled forward', shapes(1, 1, 2, 1), [2, 2, 1, 1, 1]],
    ['an input more is another set', sets('A', 'AB', 'A'), [1, 1, 1, 1]],
    ['requests with the same set share', sets('AB', 'AB', 'A', 'A'), [2, 2, 2, 2, 1]],
  ])('%s', async (_rule, requests, expected) => {
    expect(await shared(requests)).toEqual(expected);
  });

  test('a reshape is what an ONNX model sees, of requests with other variable dimensions too', async () => {
    const answers = await ask(
      [2, 3].map((count) => ({
        model_name: 'turned',
        inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1, 1, count, 2, 1] }],
        raw_input_contents: [fp32(...Array.from({ length: 2 * count }, (_, index) => index))],
      })),
    );
    expect(answers.map((answer) => [answer?.outputs?.[0]?.shape, floats(answer)])).toEqual([
      [
        [1, 1, 2, 2],
        [0, 2, 1, 3],
      ],
      [
        [1, 1, 2, 3],
        [0, 2, 4, 1, 3, 5],
      ],
    ]);
  });

  test('a reshape is what a JavaScript model sees', async () => {
    const answers = await ask([4, 4].map((count) => request('reshaped', { A: [1, count] })));
    expect(answers.map((answer) => ints(answer).slice(1))).toEqual([
      [2, 1, 4, 1],
      [2, 1, 4, 1],
    ]);
  });

  test('three requests of 3, 4 and 5 elements are one execution of an ONNX model, and each gets its part', async () => {
    let next = 0;
    const answers = await ask(
      [3, 4, 5].map((count) => ({
        model_name: 'ragged',
        inputs: [{ name: 'VALUES', datatype: 'FP32', shape: [1, count] }],
        raw_input_contents: [fp32(...Array.from({ length: count }, () => ++next))],
      })),
    );
    expect(answers.map((answer) => [answer?.outputs?.[0]?.shape, floats(answer)])).toEqual([
      [
        [1, 3],
        [2, 4, 6],
      ],
      [
        [1, 4],
        [8, 10, 12, 14],
      ],
      [
        [1, 5],
        [16, 18, 20, 22, 24],
      ],
    ]);
    const counts = [3, 4, 5];
    const seen = [...counts, 3, 7, 12, 0, 3, 7, 12, 5, 3, 1, ...counts, ...counts];
    expect(answers.map((answer) => ints(answer, 1))).toEqual([seen, seen, seen]);
  });

  test('a JavaScript model sees each request with its own shape, and the batch inputs of all', async () => {
    const answers = await ask([3, 4, 5].map((count) => request('seeing', { A: [1, count, 2] })));
    const tail = [6, 14, 24];
    expect(answers.map((answer) => ints(answer).slice(1))).toEqual([
      [3, 3, 2, ...tail],
      [3, 4, 2, ...tail],
      [3, 5, 2, ...tail],
    ]);
  });
});

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { fp32, type GrpcClient, type GrpcRequest, grpcClient, valueIn, valueRequest } from './grpc-client.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

// Bug cases about messages over gRPC; each name begins with the case's id.

const LARGE_BYTES = 12_000_000;
const input = (datatype: string, shape: readonly number[], more = {}) => ({ name: 'INPUT0', datatype, shape, ...more });
const one = (model: string, of: ReturnType<typeof input>, more: Partial<GrpcRequest> = {}): GrpcRequest => ({
  model_name: model,
  inputs: [of],
  ...more,
});
const TYPED = { contents: { fp32_contents: [1.5, 2.5] } };
const RAW = { raw_input_contents: [fp32(1.5, 2.5)] };

const ECHO = `
  export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUTPUT0: inputs.get('INPUT0') } }));`;
const echoConfig = (name: string, datatype: string) => `name: "${name}" backend: "javascript"
  input [ { name: "INPUT0" data_type: TYPE_${datatype} dims: [ -1 ] } ]
  output [ { name: "OUTPUT0" data_type: TYPE_${datatype} dims: [ -1 ] } ]`;

/** Two inputs A and B, FP32 [2]; X is A. */
const TWO = `
  export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { X: inputs.get('A') } }));`;
const TWO_CONFIG = `name: "two" backend: "javascript"
  input [ { name: "A" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "B" data_type: TYPE_FP32 dims: [ 2 ] } ]
  output [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } ]`;

function addModel(folder: ModelFolder, name: string, config: string, source: string): void {
  mkdirSync(join(folder.path, name, '1'), { recursive: true });
  writeFileSync(join(folder.path, name, 'config.pbtxt'), config);
  writeFileSync(join(folder.path, name, '1', 'model.mjs'), source);
}

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let client: GrpcClient;

  beforeAll(async () => {
    folder = createModelFolder();
    addModel(folder, 'id_fp32', echoConfig('id_fp32', 'FP32'), ECHO);
    addModel(folder, 'id_fp16', echoConfig('id_fp16', 'FP16'), ECHO);
    addModel(folder, 'two', TWO_CONFIG, TWO);
    folder.addJavaScript(
      'parameters',
      `export const execute = (requests) => requests.map(({ inputs, parameters }) => ({
         parameters, outputs: { VALUE: inputs.get('VALUE') },
       }));`,
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

  const refusals: [id: string, what: string, request: GrpcRequest, text: RegExp][] = [
    ['BC-040', 'typed and raw contents of one input', one('id_fp32', input('FP32', [2], TYPED), RAW), /'INPUT0'/],
    [
      'BC-040',
      'one input typed, the other raw',
      {
        model_name: 'two',
        inputs: [
          { name: 'A', datatype: 'FP32', shape: [2], ...TYPED },
          { name: 'B', datatype: 'FP32', shape: [2] },
        ],
        ...RAW,
      },
      /'A'|'B'/,
    ],
    [
      'BC-043',
      'integers for FP32',
      one('id_fp32', input('FP32', [2], { contents: { int_contents: [1, 2] } })),
      /'INPUT0'/,
    ],
    [
      'BC-043',
      'floats for FP16',
      one('id_fp16', input('FP16', [2], { contents: { fp32_contents: [1, 2] } })),
      /'INPUT0'/,
    ],
    [
      'BC-043',
      'one element for two',
      one('id_fp32', input('FP32', [2], { contents: { fp32_contents: [1] } })),
      /INPUT0/,
    ],
    ['BC-044', 'an input without data', one('id_fp32', input('FP32', [2])), /'INPUT0'/],
    [
      'BC-047',
      'a number as sequence_start',
      one('id_fp32', input('FP32', [2]), { ...RAW, parameters: { sequence_start: { int64_param: 1 } } }),
      /sequence_start/,
    ],
    [
      'BC-047',
      'text as timeout',
      one('id_fp32', input('FP32', [2]), { ...RAW, parameters: { timeout: { string_param: '5' } } }),
      /timeout/,
    ],
    [
      'BC-047',
      'a negative priority',
      one('id_fp32', input('FP32', [2]), { ...RAW, parameters: { priority: { int64_param: -1 } } }),
      /priority/,
    ],
  ];
  test.each(refusals)('%s: %s is refused with a text that names it', async (_, __, request, text) => {
    const { code, details } = await client.infer(request);
    expect([code, details]).toEqual([status.INVALID_ARGUMENT, expect.stringMatching(text)]);
    // The server goes on.
    expect((await client.infer(one('id_fp32', input('FP32', [2]), RAW))).code).toBe(status.OK);
  });

  test.each([
    ['typed', one('id_fp32', input('FP32', [2], TYPED))],
    ['raw', one('id_fp32', input('FP32', [2]), RAW)],
  ])('BC-041: %s contents are answered in raw ones', async (_, request) => {
    const { code, response } = await client.infer({ ...request, id: 'mine' });
    expect(code).toBe(status.OK);
    expect(response).toMatchObject({ model_name: 'id_fp32', model_version: '1', id: 'mine' });
    expect(response.raw_output_contents).toEqual([fp32(1.5, 2.5)]);
    expect(response.outputs?.map(({ name, datatype, shape, contents }) => [name, datatype, shape, contents])).toEqual([
      ['OUTPUT0', 'FP32', [2], undefined],
    ]);
  });

  test('BC-046: a message of 12 MB', async () => {
    const bytes = Buffer.alloc(LARGE_BYTES);
    for (let at = 0; at < LARGE_BYTES; at += 4) bytes.writeFloatLE(at, at);
    const request = one('id_fp32', input('FP32', [LARGE_BYTES / 4]), { raw_input_contents: [bytes] });
    const { code, details, response } = await client.infer(request);
    expect([code, details]).toEqual([status.OK, '']);
    expect(response.raw_output_contents?.[0]?.equals(bytes)).toBe(true);
  });

  test('parameters of every kind reach the model, and come back', async () => {
    const parameters = {
      yes: { bool_param: true },
      count: { int64_param: 7 },
      text: { string_param: 'some' },
      part: { double_param: 0.5 },
    };
    const { response } = await client.infer(valueRequest('parameters', 3, { parameters }));
    expect(response.parameters).toEqual(parameters);
    expect(valueIn(response)).toBe(3);
  });

  test.runIf(mode === 'apart')('every gateway serves it', async () => {
    for (const { grpc } of served.gateways) {
      const other = grpcClient(grpc ?? '');
      expect((await other.infer(valueRequest('parameters', 4))).code).toBe(status.OK);
      other.close();
    }
  });
});

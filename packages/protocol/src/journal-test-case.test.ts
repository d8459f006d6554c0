import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Datatype } from './datatype.ts';
import { journalTestCase } from './journal-test-case.ts';
import type { RecordedAnswer, RecordedStep, RecordedTensor, Recording } from './recorded.ts';
import { SAMPLE_RECORDING, SAMPLE_STEP, sampleTensor } from './sample-recording.ts';
import { sha256 } from './sha256.ts';
import { type TensorValues, tensorFromValues } from './tensor-values.ts';

const HEAD = 'inference-header-content-length';

interface Head {
  readonly id?: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly inputs: readonly { readonly parameters: { readonly binary_data_size: number } }[];
  readonly outputs?: readonly { readonly name: string }[];
}

interface Asked {
  readonly path: string;
  readonly head: Head;
  /** The JSON as it came. */
  readonly text: string;
  readonly data: Buffer;
}

/** A server of the v2 protocol that gives these answers, in this order. */
let answers: readonly RecordedAnswer[] = [];
let asked: Asked[] = [];
const server = createServer((request, response) => void answer(request, response));
let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nereid-test-case-'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(async () => {
  server.close();
  server.closeAllConnections();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => {
  asked = [];
});

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const length = Number(request.headers[HEAD]);
  const text = body.toString('utf8', 0, length);
  asked.push({ path: request.url ?? '', head: JSON.parse(text), text, data: body.subarray(length) });
  const given = answers[asked.length - 1] as RecordedAnswer;
  if (!given.ok) {
    response.writeHead(500).end(JSON.stringify({ error: `in a model: ${given.error.message}` }));
    return;
  }
  const outputs = given.outputs.map(({ name, datatype, shape, data = new Uint8Array() }) => {
    return { name, datatype, shape, parameters: { binary_data_size: data.byteLength } };
  });
  const head = Buffer.from(JSON.stringify({ model_name: 'm', model_version: '1', outputs }));
  response.writeHead(200, { [HEAD]: head.byteLength });
  response.end(Buffer.concat([head, ...given.outputs.map(({ data }) => data ?? new Uint8Array())]));
}

/** Runs a test case, as a test runner's child or by itself, against the server that gives these answers. */
async function run(text: string, given: readonly RecordedAnswer[], args: readonly string[] = []) {
  answers = given;
  const file = join(folder, 'case.test.mjs');
  await writeFile(file, text);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // The runner of these tests is not that of the test case.
  const { NODE_OPTIONS: _options, NODE_TEST_CONTEXT: _context, ...env } = process.env;
  return new Promise<{ readonly code: number; readonly output: string }>((resolve) => {
    execFile(process.execPath, [...args, file], { env: { ...env, NEREID_URL: url } }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr });
    });
  });
}

const tensor = (name: string, datatype: Datatype, values: TensorValues, shape: readonly number[]) =>
  tensorFromValues(name, datatype, shape, values);
const given = (...outputs: RecordedTensor[]): RecordedAnswer => ({ ok: true, parameters: {}, outputs });
const failure: RecordedAnswer = { ok: false, error: { code: 'INTERNAL', message: 'no \'value\' "here"\n' } };

function stepOf(step: number, of: Partial<RecordedStep['request']>, ...answers: RecordedAnswer[]): RecordedStep {
  const request = { ...SAMPLE_STEP.request, id: '', sequenceStart: false, ...of };
  return { ...SAMPLE_STEP, step, request, answers };
}

const large = sampleTensor('LARGE', 20_000);
const { data: _data, ...withoutData } = large;
const every: readonly RecordedTensor[] = [
  ...(['BOOL', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64'] as const),
  ...(['FP16', 'BF16', 'FP32', 'FP64'] as const),
].map((datatype) => ({ name: datatype, datatype, shape: [1], data: new Uint8Array(8).fill(1) }));
const words = tensor('TEXT', 'BYTES', [Buffer.from('ü'), Uint8Array.of(255, 0), new Uint8Array()], [3, 1]);

/** All that could end a text or a comment in JavaScript. */
const TEXT = `'\\'"\u2028*/\`\${x}`;

const SEQUENCE: readonly RecordedStep[] = [
  stepOf(0, { sequenceStart: true, id: "it's" }, given(tensor('SUM', 'FP32', [1, 2, 3, 4], [2, 2]))),
  stepOf(
    1,
    {
      inputs: [words, ...every, sampleTensor('NONE', 0)],
      requestedOutputs: ['TEXT', 'LARGE', 'HIDDEN'],
      priority: 2n,
      parameters: { real: 1, whole: -9223372036854775808n, text: TEXT, nereid_own: 'x' },
    },
    given(
      words,
      { ...withoutData, digest: sha256(large.data ?? new Uint8Array()) },
      { ...withoutData, name: 'HIDDEN', redacted: true },
    ),
  ),
  stepOf(2, {}, failure),
  stepOf(3, { sequenceEnd: true }, given()),
  { ...stepOf(4, {}), effect: 'lost' },
];
/** What a server gives that does as recorded. */
const SAME = [
  SEQUENCE[0]?.answers[0],
  given(words, large, { ...large, name: 'HIDDEN' }),
  failure,
  given(),
] as readonly RecordedAnswer[];

describe('the test case of a sequence', () => {
  test('sends what was recorded and passes where the answers are the same', async () => {
    const { code, output } = await run(await journalTestCase(SAMPLE_RECORDING, SEQUENCE), SAME, ['--test']);
    expect(output).toContain('pass 1');
    expect(code).toBe(0);
    expect(asked.map(({ path }) => path)).toEqual(Array(4).fill('/v2/models/sums/versions/2/infer'));
    const [first, second, , last] = asked;
    const id = first?.head.parameters.sequence_id;
    expect(id).toSatisfy((value) => Number.isSafeInteger(value) && Number(value) > 0);
    expect(asked.every(({ head }) => head.parameters.sequence_id === id)).toBe(true);
    expect(first?.head).toMatchObject({ id: "it's", parameters: { sequence_start: true } });
    expect(last?.head.parameters).toEqual({ sequence_id: id, sequence_end: true, binary_data_output: true });
    const { inputs } = (SEQUENCE[1] as RecordedStep).request;
    expect(second?.data).toEqual(Buffer.concat(inputs.map(({ data }) => data ?? new Uint8Array())));
    expect(second?.head.outputs?.map(({ name }) => name)).toEqual(['TEXT', 'LARGE', 'HIDDEN']);
    expect(second?.head.parameters).toMatchObject({ text: TEXT, priority: 2 });
    expect(second?.text).toContain('"real":1.0,"whole":-9223372036854775808');
    expect(asked.some(({ text }) => text.includes('nereid'))).toBe(false);
  });

  const floats = (...values: number[]) => given(tensor('SUM', 'FP32', values, [2, 2]));
  const near = (text: string) => text.replace('const ATOL = 0;', 'const ATOL = 0.5;');

  test.each<[string, number, RecordedAnswer, string]>([
    ['a value', 0, floats(1, 2, 3.25, 4), 'step 0, output SUM, index [1,0]: recorded 3, replayed 3.25'],
    ['a shape', 0, given(tensor('SUM', 'FP32', [1], [1])), 'step 0, output SUM: recorded FP32[2,2], replayed FP32[1]'],
    [
      'a text',
      1,
      given(tensor('TEXT', 'BYTES', ['ü', 'x', ''], [3, 1]), large, { ...large, name: 'HIDDEN' }),
      'step 1, output TEXT, index [1,0]',
    ],
    ['an output that is missing', 1, given(words), 'step 1: recorded the outputs HIDDEN,LARGE,TEXT, replayed TEXT'],
    [
      'data of another digest',
      1,
      given(words, sampleTensor('LARGE', 20_000, 1), { ...large, name: 'HIDDEN' }),
      'step 1, output LARGE: recorded data of SHA-256',
    ],
    ['outputs in place of an error', 2, given(), 'step 2: recorded the error `no '],
    ['an error in place of outputs', 3, failure, 'step 3: recorded outputs, replayed the error'],
  ])('fails by %s', async (_what, step, instead, why) => {
    const text = await journalTestCase(SAMPLE_RECORDING, SEQUENCE);
    const { code, output } = await run(text, SAME.with(step, instead));
    expect(output).toContain(why);
    expect(code).toBe(1);
  });

  test('has a tolerance that can be set in it', async () => {
    const text = near(await journalTestCase(SAMPLE_RECORDING, SEQUENCE));
    expect(await run(text, SAME.with(0, floats(1, 2, 3.5, 4)))).toMatchObject({ code: 0 });
    asked = [];
    const { output } = await run(text, SAME.with(0, floats(1, 2, 3.5, 4.75)));
    expect(output).toContain('index [1,1]: recorded 4, replayed 4.75');
  });
});

test('the test case of a single request has no sequence, and that of an id that is a text another text', async () => {
  const single: Recording = { ...SAMPLE_RECORDING, kind: 'request', correlationId: 0n };
  const step = stepOf(0, {}, given());
  expect(await run(await journalTestCase(single, [step]), [given()])).toMatchObject({ code: 0 });
  expect(
    await run(await journalTestCase({ ...single, kind: 'sequence', correlationId: 'a' }, [step]), [given(), given()]),
  ).toMatchObject({ code: 0 });
  expect(asked[0]?.head.parameters).toEqual({ binary_data_output: true });
  expect(asked[1]?.head.parameters.sequence_id).toMatch(/^replay-/);
});

test.each<[string, readonly RecordedStep[], string]>([
  [
    'an input that is redacted',
    [stepOf(0, { inputs: [{ ...withoutData, redacted: true }] }, given())],
    "input 'LARGE' of step 0 is redacted",
  ],
  ['an input without data', [stepOf(0, { inputs: [withoutData] }, given())], "input 'LARGE' of step 0 has no data"],
  ['several answers', [stepOf(0, {}, given(), given())], 'step 0 has 2 answers, and a request over HTTP has one'],
  ['no answer', [stepOf(0, {})], 'step 0 has 0 answers'],
  [
    'a parameter that JSON cannot hold',
    [stepOf(0, { parameters: { a: Number.NaN } }, given())],
    "parameter 'a' of step 0 is NaN",
  ],
  ['no step', [{ ...SAMPLE_STEP, effect: 'lost' }], 'it has no step that its model answered'],
  [
    'too much data',
    Array(4).fill(stepOf(0, { inputs: [sampleTensor('BIG', 17_000_000)] }, given())),
    'it has over 67108864 bytes',
  ],
])('no test case is written of %s', async (_what, steps, why) => {
  const refused = journalTestCase(SAMPLE_RECORDING, steps);
  await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARG' });
  await expect(refused).rejects.toThrow(why);
});

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
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

/** A server of the v2 protocol, whose models give these answers, in this order. */
const answers = new Map<string, RecordedAnswer[]>();
const asked: Asked[] = [];
const askedOf = (model: string) => asked.filter(({ path }) => path.startsWith(`/v2/models/${model}/`));
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
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const length = Number(request.headers[HEAD]);
  const text = body.toString('utf8', 0, length);
  asked.push({ path: request.url ?? '', head: JSON.parse(text), text, data: body.subarray(length) });
  const given = answers.get(request.url?.split('/')[3] ?? '')?.shift() as RecordedAnswer;
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

interface Run {
  readonly code: number;
  readonly output: string;
}

/** Runs a file of the folder against the server. */
async function run(file: string, text: string, args: readonly string[] = []): Promise<Run> {
  await writeFile(join(folder, file), text);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // The runner of these tests is not that of the test case.
  const { NODE_OPTIONS: _options, NODE_TEST_CONTEXT: _context, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(process.execPath, [...args, join(folder, file)], { env: { ...env, NEREID_URL: url } }, (error, ...out) => {
      resolve({ code: error === null ? 0 : Number(error.code), output: out.join('') });
    });
  });
}

/** Writes a test case of a model whose server gives these answers. */
async function write(recording: Recording, steps: readonly RecordedStep[], given: readonly RecordedAnswer[], atol = 0) {
  answers.set(recording.model, [...given]);
  const text = await journalTestCase(recording, steps);
  await writeFile(join(folder, `${recording.model}.mjs`), text.replace('const ATOL = 0;', `const ATOL = ${atol};`));
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

test('a test case sends what was recorded and passes where the answers are the same', async () => {
  answers.set('sums', [...SAME]);
  const { code, output } = await run('a.test.mjs', await journalTestCase(SAMPLE_RECORDING, SEQUENCE), ['--test']);
  expect(output).toContain('pass 1');
  expect(code).toBe(0);
  answers.delete('sums');
  const sent = askedOf('sums');
  expect(sent.map(({ path }) => path)).toEqual(Array(4).fill('/v2/models/sums/versions/2/infer'));
  const [first, second, , last] = sent;
  const id = first?.head.parameters.sequence_id;
  expect(id).toSatisfy((value) => Number.isSafeInteger(value) && Number(value) > 0);
  expect(sent.every(({ head }) => head.parameters.sequence_id === id)).toBe(true);
  expect(first?.head).toMatchObject({ id: "it's", parameters: { sequence_start: true } });
  expect(last?.head.parameters).toEqual({ sequence_id: id, sequence_end: true, binary_data_output: true });
  const { inputs } = (SEQUENCE[1] as RecordedStep).request;
  expect(second?.data).toEqual(Buffer.concat(inputs.map(({ data }) => data ?? new Uint8Array())));
  expect(second?.head.outputs?.map(({ name }) => name)).toEqual(['TEXT', 'LARGE', 'HIDDEN']);
  expect(second?.head.parameters).toMatchObject({ text: TEXT, priority: 2 });
  expect(second?.text).toContain('"real":1.0,"whole":-9223372036854775808');
  expect(sent.some(({ text }) => text.includes('nereid'))).toBe(false);
});

describe('the test case', () => {
  const floats = (...values: number[]) => given(tensor('SUM', 'FP32', values, [2, 2]));
  const hidden = { ...large, name: 'HIDDEN' };
  const other = tensor('TEXT', 'BYTES', ['ü', 'x', ''], [3, 1]);
  /** Each with the answer that a step gets in place of the recorded one, and what the test case says. */
  const failing: readonly (readonly [string, number, RecordedAnswer, string])[] = [
    ['a value', 0, floats(1, 2, 3.25, 4), 'step 0, output SUM, index [1,0]: recorded 3, replayed 3.25'],
    ['a shape', 0, given(tensor('SUM', 'FP32', [1], [1])), 'step 0, output SUM: recorded FP32[2,2], replayed FP32[1]'],
    ['a text', 1, given(other, large, hidden), 'step 1, output TEXT, index [1,0]: recorded'],
    ['an output too few', 1, given(words), 'step 1: recorded the outputs HIDDEN,LARGE,TEXT, replayed TEXT'],
    [
      'a digest',
      1,
      given(words, sampleTensor('LARGE', 20_000, 1), hidden),
      'step 1, output LARGE: recorded data of SHA',
    ],
    ['outputs in place of an error', 2, given(), 'step 2: recorded the error `no '],
    ['an error in place of outputs', 3, failure, 'step 3: recorded outputs, replayed the error'],
  ];
  const modelOf = (what: string) => what.replaceAll(' ', '-');
  const tolerant = { ...SAMPLE_RECORDING, model: 'tolerant' };
  const beyond = { ...SAMPLE_RECORDING, model: 'beyond' };
  const single: Recording = { ...SAMPLE_RECORDING, model: 'single', kind: 'request', correlationId: 0n };
  const named: Recording = { ...SAMPLE_RECORDING, model: 'named', correlationId: 'a' };
  let result: Run;

  // All in one process, which takes less time than one for each.
  beforeAll(async () => {
    for (const [what, step, instead] of failing) {
      await write({ ...SAMPLE_RECORDING, model: modelOf(what) }, SEQUENCE, SAME.with(step, instead));
    }
    await write(tolerant, SEQUENCE, SAME.with(0, floats(1, 2, 3.5, 4)), 0.5);
    await write(beyond, SEQUENCE, SAME.with(0, floats(1, 2, 3.5, 4.75)), 0.5);
    for (const recording of [single, named]) await write(recording, [stepOf(0, {}, given())], [given()]);
    result = await run('all.mjs', [...answers.keys()].map((model) => `import './${model}.mjs';\n`).join(''));
  });

  test.each(failing)('fails by %s', (what, _step, _instead, why) => {
    expect(resultOf(modelOf(what))).toMatch(/^not ok/);
    expect(resultOf(modelOf(what))).toContain(why);
  });

  test('has a tolerance that can be set in it', () => {
    expect(resultOf('tolerant')).toMatch(/^ok/);
    expect(resultOf('beyond')).toContain('index [1,1]: recorded 4, replayed 4.75');
  });

  test('of a single request has no sequence, and that of an id that is a text another text', () => {
    expect([resultOf('single'), resultOf('named')]).toEqual([
      expect.stringMatching(/^ok/),
      expect.stringMatching(/^ok/),
    ]);
    expect(askedOf('single')[0]?.head.parameters).toEqual({ binary_data_output: true });
    expect(askedOf('named')[0]?.head.parameters.sequence_id).toMatch(/^replay-/);
  });

  /** What the runner says of a model's test case. */
  function resultOf(model: string): string {
    return (
      result.output
        .split('# Subtest: ')
        .find((part) => part.startsWith(`${model} `))
        ?.split('\n')
        .slice(1)
        .join('\n') ?? ''
    );
  }
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
    [stepOf(0, { inputs: [{ ...withoutData, data: new Uint8Array(67_108_865) }] }, given())],
    'it has over 67108864 bytes',
  ],
])('no test case is written of %s', async (_what, steps, why) => {
  const refused = journalTestCase(SAMPLE_RECORDING, steps);
  await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARG' });
  await expect(refused).rejects.toThrow(why);
});

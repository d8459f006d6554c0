/** What is asked of the server, and how its answers are read. */
import { expect, test } from 'vitest';
import { type Client, createClient } from './client.ts';

const URL = 'http://host';
const ID = 'vad~gw-1:7';
const RECORDING = { id: ID, state: 'ended', model_name: 'vad', steps: 3 };

/** Answers in turn; what was sent, with its body as text. */
function fakeClient(answers: readonly (() => Response)[]) {
  const sent: string[] = [];
  const client: Client = createClient({
    url: URL,
    fetch: async (url, init) => {
      const body = init.body == null ? '' : ` ${await new Response(init.body).text()}`;
      sent.push(`${init.method} ${url.slice(`${URL}/nereid/v1/journal`.length)}${body}`);
      const answer = answers[sent.length - 1];
      if (answer === undefined) throw new Error('no more answers');
      return answer();
    },
  });
  return { journal: client.journal, sent };
}

const json =
  (value: unknown, status = 200) =>
  () =>
    new Response(JSON.stringify(value), { status });
const lines = (...values: unknown[]) => new Response(values.map((value) => `${JSON.stringify(value)}\n`).join('\n'));

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test('recordings are listed page by page', async () => {
  const { journal, sent } = fakeClient([
    json({ recordings: [RECORDING], next: 'vad/1~x' }),
    json({ recordings: [] }),
    json({ recording: RECORDING, steps: [] }),
  ]);
  expect(await all(journal.list({ model: 'vad', state: 'ended', sequenceId: 5n, limit: 1 }))).toEqual([RECORDING]);
  expect(await journal.get(ID)).toEqual(RECORDING);
  expect(sent).toEqual([
    'GET ?model=vad&state=ended&limit=1&sequence_id=5',
    'GET ?model=vad&state=ended&limit=1&sequence_id=5&after=vad%2F1%7Ex',
    `GET /${ID}?limit=1`,
  ]);
});

test('steps come page by page, with tensors as values', async () => {
  const tensor = { name: 'A', shape: [2], byte_size: 4 };
  const step = (number: number, inputs: object[], answers: object[]) => ({ step: number, inputs, answers });
  const { journal, sent } = fakeClient([
    json({
      recording: RECORDING,
      steps: [
        step(
          1,
          [
            { ...tensor, datatype: 'FP32', data: [0.5, 'NaN'] },
            { ...tensor, datatype: 'FP16', b64: 'ADwAPA==' },
            { name: 'S', datatype: 'BYTES', shape: [1], redacted: true },
          ],
          [{ outputs: [{ ...tensor, datatype: 'INT64', digest: 'ab' }] }],
        ),
      ],
      next: 2,
    }),
    json({ recording: RECORDING, steps: [step(2, [], [{ error: { code: 'INTERNAL', message: 'x' } }])] }),
  ]);
  const [first, second] = await all(journal.steps(ID, { from: 1, limit: 5, data: true }));
  expect(sent).toEqual([`GET /${ID}?from=1&limit=5&data=true`, `GET /${ID}?from=2&limit=4&data=true`]);
  expect(first?.inputs.map((input) => input.tensor?.data)).toEqual([
    Float32Array.of(0.5, Number.NaN),
    Uint16Array.of(0x3c00, 0x3c00),
    undefined,
  ]);
  expect(first?.inputs[2]?.redacted).toBe(true);
  expect(first?.answers).toEqual([{ outputs: [{ name: 'A', datatype: 'INT64', shape: [2], digest: 'ab' }] }]);
  expect(second?.answers).toEqual([{ outputs: [], error: { code: 'INTERNAL', message: 'x' } }]);
});

test('a replay yields its steps and returns the verdict', async () => {
  const verdict = { result: 'differs', steps: 2, compared: 2, first_difference: { step: 1, kind: 'answers' } };
  const steps = [
    { step: 0, equal: true, took_ms: 1 },
    { step: 1, equal: false, took_ms: 1, difference: verdict.first_difference },
  ];
  const { journal, sent } = fakeClient([() => lines(...steps, verdict)]);
  const run = journal.replay(ID, {
    version: '2',
    pace: 2,
    from: 1,
    atol: 1e-6,
    stopAtFirst: true,
    replace: { step: 1, inputs: { A: { datatype: 'FP16', shape: [1], data: [1] } } },
  });
  expect([await run.next(), await run.next(), await run.next()]).toEqual([
    { done: false, value: steps[0] },
    { done: false, value: steps[1] },
    { done: true, value: verdict },
  ]);
  const input = '{"name":"A","datatype":"FP16","shape":[1],"b64":"ADw="}';
  expect(sent).toEqual([
    `POST /${ID}/replay {"version":"2","pace":2,"from":1,"atol":0.000001,"stop_at_first":true,"replace":{"step":1,"inputs":[${input}]}}`,
  ]);
});

test.each<readonly [string, () => Response, object]>([
  [
    'is refused',
    json({ error: 'no version 9', code: 'NOT_FOUND' }, 404),
    { code: 'NOT_FOUND', message: 'no version 9' },
  ],
  [
    'fails',
    () => lines({ result: 'failed', error: { code: 'INVALID_ARG', message: 'redacted', field: 'replace' } }),
    { code: 'INVALID_ARG', message: 'redacted', field: 'replace' },
  ],
  ['ends without a verdict', () => lines({ step: 0 }), { code: 'UNAVAILABLE', reason: 'stream_broken' }],
  [
    'breaks off',
    () => new Response(new ReadableStream({ pull: (controller) => controller.error(new Error('reset')) })),
    { code: 'UNAVAILABLE', reason: 'stream_broken', cause: { message: 'reset' } },
  ],
])('a replay that %s throws', async (_what, answer, error) => {
  const { journal } = fakeClient([answer]);
  await expect(all(journal.replay(ID))).rejects.toMatchObject(error);
});

test('a replay that is left is ended', async () => {
  let left = () => {};
  const isLeft = new Promise<void>((resolve) => {
    left = resolve;
  });
  const endless = new ReadableStream({
    pull: (controller) => controller.enqueue(new TextEncoder().encode('{"step":0}\n')),
    cancel: left,
  });
  const { journal } = fakeClient([() => new Response(endless)]);
  for await (const _ of journal.replay(ID)) break;
  await isLeft;
});

test('files, comparisons and removal', async () => {
  const { journal, sent } = fakeClient([
    () => new Response('file'),
    json(RECORDING, 201),
    json({ result: 'equal', compared: 3 }),
    json(RECORDING),
    json({ error: 'gone' }, 404),
  ]);
  const file = await new Response(await journal.export(ID, { gzip: true })).blob();
  expect(await journal.import(file)).toEqual(RECORDING);
  expect(await journal.diff(ID, 'vad~b', { rtol: 0.5 })).toEqual({ result: 'equal', compared: 3 });
  await journal.remove(ID);
  await journal.remove('../x');
  expect(sent).toEqual([
    `GET /${ID}/export?gzip=true`,
    'POST  file',
    `GET /${ID}/diff?with=vad%7Eb&rtol=0.5`,
    `DELETE /${ID}`,
    'DELETE /..%2Fx',
  ]);
});

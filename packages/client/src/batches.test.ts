/** What is sent again, and what goes on where it broke off. */
import { expect, test } from 'vitest';
import type { BatchFile } from './batch-file.ts';
import { createBatches } from './batches.ts';
import { createDeadLetters } from './dead-letters.ts';
import { createHttp } from './http.ts';

const BATCH = { id: 'm~1', state: 'waiting' };
const input = { inputs: { A: { datatype: 'INT64', shape: [1], data: [2n ** 62n] } } } as const;
const LINE =
  '{"custom_id":"a","body":{"v":1,"parameters":{},"inputs":[{"name":"A","datatype":"INT64","shape":[1],"b64":"AAAAAAAAAEA="}],"respond":"b64"}}\n';

/** Answers in turn; what was sent, with its body as text, and how long was waited between. */
function fakeServer(answers: readonly (() => Response)[]) {
  const sent: { path: string; type: string | null; body: string }[] = [];
  const slept: number[] = [];
  const http = createHttp(
    {
      url: 'http://host',
      fetch: async (url, init) => {
        const body = await new Response(init.body).text();
        sent.push({ path: url.slice('http://host'.length), type: new Headers(init.headers).get('Content-Type'), body });
        const answer = answers[sent.length - 1];
        if (answer === undefined) throw new Error('no more answers');
        return answer();
      },
    },
    { nowMs: () => 0, random: () => 0, sleep: async (ms) => void slept.push(ms) },
  );
  return { http, sent, slept };
}

const taken = () => new Response(JSON.stringify(BATCH), { status: 202 });
const full = () =>
  new Response('{"error":"full"}', {
    status: 429,
    headers: { 'Retry-After': '7', 'Nereid-Error': 'UNAVAILABLE; reason=redis_full' },
  });
const gone = () => {
  throw new TypeError('fetch failed');
};

async function* slowly(...items: (object | Uint8Array)[]) {
  yield* items as { inputs: typeof input.inputs }[];
}
const line = { customId: 'a', ...input };
const bytes = new TextEncoder().encode(LINE);

test.each<readonly [string, () => BatchFile, boolean]>([
  ['a text', () => LINE, true],
  ['bytes', () => bytes, true],
  ['a Blob', () => new Blob([LINE]), true],
  ['requests', () => [line], true],
  ['requests, asynchronously', () => slowly(line), false],
  ['bytes, asynchronously', () => slowly(bytes.subarray(0, 9), bytes.subarray(9)), false],
  ['a stream', () => new Blob([LINE]).stream(), false],
])('%s is a file, and is sent again where it can be', async (_what, file, isKept) => {
  const { http, sent, slept } = fakeServer([full, taken]);
  const submitted = createBatches(http).submit('m', file());
  if (isKept) expect(await submitted).toEqual(BATCH);
  else await expect(submitted).rejects.toMatchObject({ status: 429, reason: 'redis_full', retryAfterMs: 7_000 });
  expect(slept).toEqual(isKept ? [7_000] : []);
  const one = { path: '/v2/models/m/batches', type: 'application/jsonl', body: LINE };
  expect(sent).toEqual(isKept ? [one, one] : [one]);
});

test('a file that was put is named, and wishes are headers', async () => {
  const { http, sent } = fakeServer([taken]);
  await createBatches(http).submit('m', { blob: { ref: 'r', byte_size: 3 } }, { version: '2', attempts: 1 });
  const body = '{"input_blob":{"ref":"r","byte_size":3}}';
  expect(sent).toEqual([{ path: '/v2/models/m/versions/2/batches', type: 'application/json', body }]);
});

test.each<readonly [string, unknown]>([
  ['a number', 5],
  ['lines of text', ['{}']],
  ['an object', { path: 'file' }],
])('%s is no file', async (_what, file) => {
  const { http } = fakeServer([taken]);
  await expect(createBatches(http).submit('m', file as BatchFile)).rejects.toMatchObject({ code: 'INVALID_ARG' });
});

/** Never at its end; what it throws instead, after its first line. */
async function* endless(left: () => void, second?: () => unknown) {
  try {
    yield line;
    while (true) yield (second?.() ?? line) as typeof line;
  } finally {
    left();
  }
}

/** As `fetch` does: a body that fails breaks the call off, one that is not read to its end is not told so. */
const fetched = (answer: () => Response, parts: number) =>
  createHttp({
    url: 'http://host',
    fetch: async (_url, { body }) => {
      const reader = (body as ReadableStream<Uint8Array>).getReader();
      for (let part = 0; part < parts; part++) {
        await reader.read().catch((cause: unknown) => Promise.reject(new TypeError('fetch failed', { cause })));
      }
      return answer();
    },
  });

test.each<readonly [string, () => unknown, unknown]>([
  ['a line that does not fit', () => 'text', { code: 'INVALID_ARG', reason: undefined }],
  [
    'its own',
    () => {
      throw new Error('mine');
    },
    { message: 'mine' },
  ],
])('an error of what is iterated, %s, is thrown as it is', async (_what, second, error) => {
  let isLeft = false;
  const file = endless(() => {
    isLeft = true;
  }, second);
  await expect(createBatches(fetched(taken, 2)).submit('m', file)).rejects.toMatchObject(error as object);
  expect(isLeft).toBe(true);
});

test('what is iterated is left where it is not read to its end', async () => {
  let submitted: Promise<unknown> | undefined;
  await new Promise<void>((left) => {
    submitted = createBatches(fetched(full, 1)).submit('m', endless(left));
    submitted.catch(() => {});
  });
  await expect(submitted).rejects.toMatchObject({ status: 429 });
});

test('a wait of a part of a millisecond is asked for in whole ones', async () => {
  const { http, sent } = fakeServer([() => new Response('{"id":"m~1","state":"completed"}')]);
  await createBatches(http).wait('m~1', { timeoutMs: 5_000.5 });
  expect(sent[0]?.path).toMatch(/\?wait=[0-9]+ms$/);
});

test('a batch whose answer is lost is not sent again, which would be a second one', async () => {
  const { http, sent } = fakeServer([gone, taken]);
  await expect(createBatches(http).submit('m', [line])).rejects.toMatchObject({ reason: 'connection' });
  expect(sent).toHaveLength(1);
});

const resultText = (number: number) =>
  JSON.stringify({ line: number, custom_id: `n${number}`, response: { status_code: 200, body: { outputs: [] } } });
/** Breaks off in the middle of its last line. */
const broken = (...numbers: number[]) => {
  const chunks = numbers.map((number) => `${resultText(number)}\n`).concat(resultText(99).slice(0, 8));
  return () =>
    new Response(
      new ReadableStream({
        pull(controller) {
          const chunk = chunks.shift();
          if (chunk === undefined) controller.error(new Error('reset'));
          else controller.enqueue(new TextEncoder().encode(chunk));
        },
      }),
    );
};

test('results go on behind the last line that came, and no more come than are asked for', async () => {
  const { http, sent } = fakeServer([broken(0, 3), broken(4), () => new Response(`${resultText(7)}\n`)]);
  const lines: number[] = [];
  const results = createBatches(http).results('m~1', { limit: 4, retry: { delayMs: 1e9, delayMsMax: 1 } });
  for await (const { line: number, customId, error } of results) {
    expect([customId, error]).toEqual([`n${number}`, undefined]);
    lines.push(number);
  }
  expect(lines).toEqual([0, 3, 4, 7]);
  expect(sent.map(({ path }) => path)).toEqual(
    ['limit=4', 'after=3&limit=2', 'after=4&limit=1'].map((query) =>
      `/v2/batches/m%7E1/results?${query}`.replace('%7E', '~'),
    ),
  );
});

test('results that break off each time are told as that', async () => {
  const { http } = fakeServer([broken(), broken(), broken()]);
  const results = createBatches(http).results('m~1', { retry: { attempts: 2, delayMs: 0 } });
  await expect(results.next()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'connection' });
});

test('ids go into paths as they are, and what is no id does not leave its place', async () => {
  const { http, sent } = fakeServer([taken, taken]);
  const batches = createBatches(http);
  await batches.get('two%20words~01KB');
  await batches.get('../models?x=é');
  expect(sent.map(({ path }) => path)).toEqual([
    '/v2/batches/two%20words~01KB',
    '/v2/batches/..%2Fmodels%3Fx%3D%C3%A9',
  ]);
});

test('a replay is sent again only where the server took nothing', async () => {
  const { http, sent, slept } = fakeServer([full, () => new Response('{"id":"m~1"}')]);
  expect(await createDeadLetters(http).replay('m~1', { input })).toBeUndefined();
  expect([slept, sent.map(({ path }) => path)]).toEqual([[7_000], Array(2).fill('/nereid/v1/deadletters/m~1/replay')]);
  const { data } = JSON.parse(sent[1]?.body ?? '');
  expect(data.inputs).toEqual([{ name: 'A', datatype: 'INT64', shape: [1], b64: 'AAAAAAAAAEA=' }]);
  const lost = fakeServer([gone, taken]);
  await expect(createDeadLetters(lost.http).replay('m~1')).rejects.toMatchObject({ reason: 'connection' });
});

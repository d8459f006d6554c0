import { expect, test } from 'vitest';
import { NereidError } from './error.ts';
import { type Call, createHttp, type HttpOptions, sleep } from './http.ts';

const START_MS = Date.parse('2026-01-02T03:04:05Z');
const CALL: Call = { method: 'GET', path: '/v2', repeatable: 'always' };

/** Answers of a server in turn; what throws is a connection that breaks. */
function fakeHttp(answers: readonly (() => Response)[], options: Partial<HttpOptions> = {}) {
  const sent: { url: string; init: RequestInit }[] = [];
  const slept: number[] = [];
  let nowMs = START_MS;
  const http = createHttp(
    {
      url: 'http://host:1/base/',
      fetch: async (url, init) => {
        sent.push({ url, init });
        const answer = answers[sent.length - 1];
        if (answer === undefined) throw new Error('no more answers');
        return answer();
      },
      ...options,
    },
    {
      nowMs: () => nowMs,
      random: () => 0,
      sleep: async (ms) => {
        slept.push(ms);
        nowMs += ms;
      },
    },
  );
  return { http, sent, slept };
}

const ok = () => new Response('{"a":9007199254740993}');
const busy =
  (headers: Record<string, string> = {}) =>
  () =>
    new Response('{"error":"full"}', { status: 503, headers: { 'Nereid-Error': 'UNAVAILABLE', ...headers } });
const broken = () => {
  throw new TypeError('fetch failed', { cause: new Error('ECONNRESET') });
};

test('calls below its address, with the headers of client and call', async () => {
  const { http, sent } = fakeHttp([ok], { headers: { a: '1', b: '1' } });
  expect(await http.json({ ...CALL, headers: { b: '2' } })).toEqual({ a: 9007199254740993n });
  expect(sent[0]).toMatchObject({ url: 'http://host:1/base/v2', init: { method: 'GET', headers: { a: '1', b: '2' } } });
});

test('waits as long as each answer says, in seconds or until a date', async () => {
  const date = new Date(START_MS + 5_000).toUTCString();
  const { http, slept } = fakeHttp([busy({ 'Retry-After': '2' }), busy({ 'Retry-After': date }), broken, ok]);
  await http.call(CALL);
  expect(slept).toEqual([2_000, 3_000, 400]);
});

test('gives the last error once all attempts are made', async () => {
  const { http, sent } = fakeHttp([busy(), busy()], { retry: { attempts: 2 } });
  await expect(http.call(CALL)).rejects.toMatchObject({ code: 'UNAVAILABLE', message: 'full', status: 503 });
  expect(sent).toHaveLength(2);
});

test('gives a call its own number of attempts', async () => {
  const { http, sent } = fakeHttp([busy(), ok]);
  await expect(http.call({ ...CALL, retry: { attempts: 1 } })).rejects.toMatchObject({ status: 503 });
  expect(sent).toHaveLength(1);
});

test('does not begin a wait that its time does not allow', async () => {
  const { http, sent } = fakeHttp([busy({ 'Retry-After': '20' })], { timeoutMs: 10_000 });
  await expect(http.call(CALL)).rejects.toMatchObject({ retryAfterMs: 20_000 });
  expect(sent).toHaveLength(1);
});

test('a body that breaks off is asked for again', async () => {
  const cut = () =>
    new Response(new ReadableStream({ pull: (controller) => controller.error(new TypeError('terminated')) }));
  const { http, sent } = fakeHttp([cut, ok]);
  await http.call(CALL);
  expect(sent).toHaveLength(2);
});

test.each<[string, Response, object]>([
  [
    'by header and body on routes of Triton',
    new Response('{"error":"wrong shape"}', {
      status: 400,
      headers: { 'Nereid-Error': 'INVALID_ARG; field=inputs[0].shape; reason=step_gap', 'Nereid-Request-Id': 'gw:1' },
    }),
    { code: 'INVALID_ARG', message: 'wrong shape', field: 'inputs[0].shape', reason: 'step_gap', requestId: 'gw:1' },
  ],
  [
    'by the body alone',
    new Response('{"error":"taken","code":"ALREADY_EXISTS","field":"Idempotency-Key"}', { status: 409 }),
    { code: 'ALREADY_EXISTS', message: 'taken', field: 'Idempotency-Key', status: 409 },
  ],
  [
    'by the status where a proxy answers',
    new Response('<html>', { status: 413 }),
    { code: 'INVALID_ARG', message: 'HTTP 413: <html>' },
  ],
  ['by nothing', new Response('', { status: 418 }), { code: 'UNKNOWN', message: 'HTTP 418' }],
  [
    'in a stream that begins with it',
    new Response('data: {"error":"not this"}\n\ndata: {"OUTPUT":1}\n\n', {
      status: 400,
      headers: { 'Nereid-Error': 'INTERNAL' },
    }),
    { code: 'INTERNAL', message: 'not this' },
  ],
])('tells an error %s', async (_how, response, error) => {
  const { http } = fakeHttp([() => response]);
  const thrown = await http.call(CALL).catch((reason: unknown) => reason);
  expect(thrown).toBeInstanceOf(NereidError);
  expect(thrown).toMatchObject(error);
});

test('ends with its signal, whose reason it throws, before and in a call', async () => {
  const hangs = (_url: string, { signal }: RequestInit) =>
    new Promise<Response>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
  const http = createHttp({ url: 'http://host:1', fetch: hangs });
  const caller = new AbortController();
  const left = http.call({ ...CALL, signal: caller.signal });
  caller.abort(new Error('left'));
  await expect(left).rejects.toThrow('left');
  await expect(http.call({ ...CALL, signal: caller.signal })).rejects.toThrow('left');
  await expect(http.call({ ...CALL, timeoutMs: 5 })).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    reason: 'timeout',
    message: 'no answer within 5 ms',
  });
});

test('leaves while it waits for the next attempt', async () => {
  const caller = new AbortController();
  const fetch = async () => busy({ 'Retry-After': '20' })();
  const left = createHttp({ url: 'http://host:1', fetch }).call({ ...CALL, signal: caller.signal });
  setTimeout(() => caller.abort(new Error('left')));
  await expect(left).rejects.toThrow('left');
  await expect(sleep(1e6, caller.signal)).rejects.toThrow('left');
});

test.each(['localhost:8000', 'redis://host', '', 'http://host?a=1'])('refuses the address %j', (url) => {
  expect(() => createHttp({ url })).toThrow(/url must be an address/);
});

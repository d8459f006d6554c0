import { describe, expect, test } from 'vitest';
import { judgeGrpc } from './judge-grpc.mjs';
import { type HttpAnswer, judgeHttp } from './judge-http.mjs';
import { buildGrpc, planGrpc } from './plan-grpc.mjs';
import { buildHttp, planHttp } from './plan-http.mjs';

// The fuzzer's own checks: what it is to find must be a problem to it.

const answer = (status: number, body: string, type = 'application/json'): HttpAnswer => ({
  status,
  headers: new Map([['content-type', type]]),
  body: Buffer.from(body),
});
const INFER = {
  method: 'POST',
  path: '/v2/models/simple/infer',
  headers: [],
  expect: 'any',
  status: 200,
  check: ({ body }: HttpAnswer) => (body.toString() === '1' ? undefined : 'another value'),
} as const;

const REFUSED = answer(400, '{"error":"no"}');

describe('an answer over HTTP', () => {
  test.each([
    ['a success', {}, answer(200, '1'), undefined],
    ['a refusal', {}, REFUSED, undefined],
    ['of what is not served', {}, answer(501, '{"error":"no"}'), undefined],
    ["the server's fault", {}, answer(500, '{"error":"no"}'), /^status 500/],
    ['not now', {}, answer(503, '{"error":"no"}'), /^status 503/],
    ['a redirection', {}, answer(302, ''), /^status 302/],
    ['a fault that is recorded', { path: '/v2/models/fail_execute/infer' }, answer(500, '{"error":"no"}'), undefined],
    ['a refusal that is recorded', { path: '/v2/repository/models/m/load' }, answer(503, '{"error":"no"}'), undefined],
    ['an error of another type', {}, answer(400, '{"error":"no"}', 'text/html'), /type text\/html/],
    [
      "a stream's error as an event",
      { path: '/v2/models/m/generate_stream' },
      answer(400, 'data: {"error":"no"}\n\n', 'text/event-stream; charset=utf-8'),
      undefined,
    ],
    ['an event elsewhere', {}, answer(400, 'data: {"error":"no"}\n\n', 'text/event-stream'), /type text\/event-stream/],
    ['an error that is no JSON', {}, answer(400, 'no'), /no JSON/],
    ['an error without a text', {}, answer(400, '{"error":" "}'), /without a text/],
    ['an error of something else', {}, answer(400, '{"message":"no"}'), /without a text/],
    ['an error with more', {}, answer(400, '{"error":"no","code":"X"}'), /with code/],
    ["a job's error with more", { path: '/v2/jobs/x' }, answer(400, '{"error":"no","code":"X"}'), undefined],
    ['a stack', {}, answer(400, '{"error":"no\\n    at f (x)"}'), /inside/],
    [
      'a refusal by a whole URL',
      { path: 'http://other.example/v2/repository/models/m/load' },
      answer(503, '{"error":"no"}'),
      undefined,
    ],
    ['a path', {}, answer(400, '{"error":"cannot read /usr/lib/x"}'), /inside/],
    ['of health', { path: '/v2/health/ready' }, answer(400, '', 'text/plain'), undefined],
    ['right values', { expect: 'valid' }, answer(200, '1'), undefined],
    ['wrong values', { expect: 'valid' }, answer(200, '2'), /another value/],
    ['a refusal of what is valid', { expect: 'valid' }, REFUSED, /status 400, not 200/],
    ['a success of what is not', { expect: 'refused' }, answer(200, '1'), /not refused/],
  ] as const)('%s', (_what, request, one, problem) => {
    const found = judgeHttp({ ...INFER, ...request }, { answers: 1 }, { answers: [one], ended: false });
    if (problem === undefined) expect(found).toBeUndefined();
    else expect(found).toMatch(problem);
  });

  test('none where one must come', () => {
    expect(judgeHttp(INFER, { answers: 1 }, { answers: [], ended: true })).toMatch(/0 answers of 1/);
    expect(
      judgeHttp({ ...INFER, expect: 'valid' }, { answers: 2 }, { answers: [answer(200, '1')], ended: true }),
    ).toMatch(/1 answers of 2/);
    expect(judgeHttp(INFER, { answers: 1, unsure: true }, { answers: [], ended: true })).toBeUndefined();
  });
});

describe('an answer over gRPC', () => {
  const CALL = { path: '/inference.GRPCInferenceService/ModelInfer', headers: {}, expect: 'any' } as const;
  const of = (code: number | undefined, text = 'no') => ({ code, text, messages: [], headers: { ':status': 200 } });
  test.each([
    ['a success', {}, of(0, ''), undefined],
    ['a refusal', {}, of(3), undefined],
    ["the server's fault", {}, of(13), /code 13/],
    ['not now', {}, of(14), /code 14/],
    ['unknown', {}, of(2), /code 2/],
    ['a deadline that nobody set', {}, of(4), /code 4/],
    ['a deadline', { headers: { 'grpc-timeout': '1n' } }, of(4), undefined],
    ['a fault that is recorded', { fails: true }, of(13), undefined],
    ['a frame that is none', { misframed: true }, of(13), undefined],
    ['an error without a text', {}, of(3, ''), /without a text/],
    ['a stack', {}, of(3, 'no\n    at f'), /inside/],
    ['no code', {}, of(undefined), /no code/],
    ['wrong values', { expect: 'valid', check: () => 'another value' }, of(0, ''), /another value/],
    ['a success of what is not', { expect: 'refused' }, of(0, ''), /not refused/],
  ] as const)('%s', (_what, call, result, problem) => {
    const found = judgeGrpc({ ...CALL, ...call }, result);
    if (problem === undefined) expect(found).toBeUndefined();
    else expect(found).toMatch(problem);
  });
});

describe('a plan', () => {
  const SEED = 7;
  const PLANS = 300;
  const OPTIONS = { bodyBytesMax: 1_000 };

  test('gives the same bytes at each time, and others for another number', () => {
    const bytes = (index: number) => JSON.stringify(buildHttp(planHttp(SEED, index), OPTIONS).delivery.pieces);
    const frames = (index: number) => JSON.stringify(buildGrpc(planGrpc(SEED, index)).frames);
    for (let index = 0; index < PLANS; index++) {
      expect(bytes(index), `http ${index}`).toBe(bytes(index));
      expect(frames(index), `grpc ${index}`).toBe(frames(index));
    }
    expect(new Set(Array.from({ length: 50 }, (_, index) => bytes(index))).size).toBeGreaterThan(40);
  });

  test('holds without any one of its steps', () => {
    for (let index = 0; index < PLANS; index++) {
      for (const [place] of planHttp(SEED, index).steps.entries()) {
        const plan = planHttp(SEED, index);
        expect(() => buildHttp({ ...plan, steps: plan.steps.toSpliced(place, 1) }, OPTIONS)).not.toThrow();
      }
      for (const [place] of planGrpc(SEED, index).steps.entries()) {
        const plan = planGrpc(SEED, index);
        expect(() => buildGrpc({ ...plan, steps: plan.steps.toSpliced(place, 1) })).not.toThrow();
      }
    }
  });

  test('leaves a good share of the requests valid', () => {
    const valid = Array.from({ length: PLANS }, (_, index) => buildHttp(planHttp(SEED, index), OPTIONS).request.expect);
    expect(valid.filter((expected) => expected === 'valid').length).toBeGreaterThan(PLANS / 4);
  });
});

import type { ExplainedJson, ExplainedRequestJson } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { explain } from './explain.ts';
import { explainStory } from './explain-story.ts';

const ARRIVED = '2026-01-02T03:04:05.000Z';

const BATCHED: ExplainedRequestJson = {
  id: 'gw-1:12',
  request_id: 'mine',
  trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
  model: 'm',
  version: '2',
  arrived: ARRIVED,
  took_ms: 20.5,
  state: 'ok',
  call: { process: 'gw-1', arrived: ARRIVED, took_ms: 20.5, state: 'ok', door: 'http', owner: 'co-1', sends: 1 },
  runs: [
    {
      ...{ process: 'co-1', id: 'gw-1:12', model: 'm', version: '2', epoch: 1, rows: 1, priority: 2 },
      ...{ arrived: ARRIVED, took_ms: 20, state: 'ok', queued_ms: 8 },
      found: { waiting: 5, ahead: 3, running: 8 },
      losses: 1,
      events: [{ after_ms: 4, what: 'its batch was lost at wk-1' }],
      batch: {
        ...{ number: 7, close_reason: 'full', worker: 'wk-2', instance: 'm_0_1', requests: 3, rows: 4 },
        ...{ wait_ms: 0.5, input_ms: 1, infer_ms: 8, output_ms: 0.25 },
        others: [{ id: 'gw-2:3', request_id: 'theirs' }, { id: 'gw-2:4' }],
      },
    },
  ],
  calls: [],
};

const FAILED: ExplainedRequestJson = {
  ...{ id: 'gw-1:r1', model: 'nope', arrived: ARRIVED, took_ms: 0, state: 'error', runs: [], calls: [] },
  error: { code: 'NOT_FOUND', message: "Request for unknown model: 'nope' is not found" },
  call: {
    ...{ process: 'gw-1', arrived: ARRIVED, took_ms: 0, state: 'error', door: 'grpc', sends: 0 },
    error: { code: 'NOT_FOUND', message: "Request for unknown model: 'nope' is not found" },
  },
};

const told = (requests: readonly ExplainedRequestJson[], more: Partial<ExplainedJson> = {}): ExplainedJson => ({
  requests,
  more: false,
  unanswered: [],
  ...more,
});

test('a request is told in the order of what happened to it', () => {
  expect(explainStory(told([BATCHED]))).toBe(
    [
      'Request gw-1:12 of m version 2: answered after 20.50 ms',
      '  id mine',
      '  trace 4bf92f3577b34da6a3ce929d0e0e4736',
      '  came 2026-01-02T03:04:05.000Z',
      '   +0.00 ms  came over http at gw-1',
      '             sent once, last to co-1',
      '   +0.00 ms  queued at co-1 behind 3 of 5 waiting, with 8 running, priority 2',
      '   +4.00 ms  its batch was lost at wk-1',
      '   +8.00 ms  sent in batch 7 of 3 requests, 4 rows, closed because it was full',
      '             to wk-2 instance m_0_1',
      '             with gw-2:3 (theirs), gw-2:4',
      '   +8.50 ms  began after 0.50 ms in the worker; input 1.00 ms, infer 8.00 ms, output 0.25 ms',
      '  +20.00 ms  done',
    ].join('\n'),
  );
});

test('one that was refused says why, and steps stand below their ensemble', () => {
  const step = { ...FAILED, id: 'ca-1:r1', parent: 'gw-1:12', step: 1 };
  const text = explainStory(told([{ ...BATCHED, calls: [step] }, FAILED]));
  expect(text).toContain(
    "\n  Step 1 ca-1:r1 of nope: failed after 0.00 ms: NOT_FOUND Request for unknown model: 'nope'",
  );
  expect(text).toContain(
    "\n\nRequest gw-1:r1 of nope: failed after 0.00 ms: NOT_FOUND Request for unknown model: 'nope'",
  );
  expect(text).toContain('sent to no coordinator: refused where it came');
});

test('a job, what is missing, and that there is more', () => {
  const job = { id: 'm~1', state: 'failed', attempts: 3, created: ARRIVED, failed_reason: 'INTERNAL: no' };
  expect(explainStory(told([], { job, more: true, unanswered: ['co-9'] }))).toBe(
    [
      'Job m~1: failed',
      '   created  2026-01-02T03:04:05.000Z',
      '  attempts  3',
      '    reason  INTERNAL: no',
      '',
      'There are more: ask for one of them by its token, or with --limit.',
      'No answer came from co-9: what only they know is missing.',
    ].join('\n'),
  );
});

test('the command asks a server, and ends as the answer says', async () => {
  const run = async (status: number, body: unknown, json = false) => {
    const seen = { urls: [] as string[], out: '', err: '' };
    const host = {
      env: {},
      fetch: async (url: URL) => {
        seen.urls.push(String(url));
        return new Response(JSON.stringify(body), { status });
      },
      stdout: (text: string) => {
        seen.out += text;
      },
      stderr: (text: string) => {
        seen.err += text;
      },
    };
    const exitCode = await explain({ url: 'http://h:8000', json, id: 'a/b ü', limit: '3' }, host);
    return { exitCode, ...seen };
  };
  const good = await run(200, told([BATCHED]));
  expect(good.urls).toEqual(['http://h:8000/nereid/v1/explain/a%2Fb%20%C3%BC?limit=3']);
  expect(good).toMatchObject({ exitCode: 0, err: '' });
  expect(good.out).toMatch(/^Request gw-1:12 [\s\S]*done\n$/);
  const { out } = await run(200, told([BATCHED]), true);
  expect(JSON.parse(out)).toEqual(told([BATCHED]));
  const missing = await run(404, { error: "no request 'x' is known here: …", code: 'NOT_FOUND' });
  expect(missing).toMatchObject({ exitCode: 1, out: '', err: "nereid explain: no request 'x' is known here: …\n" });
});

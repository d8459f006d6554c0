import { describe, expect, it } from 'vitest';
import { cancelJob, listJobs, removeJob, retryJob, showJob } from './jobs.ts';
import type { WatchHost } from './watch-job.ts';
import { watchJob } from './watch-job.ts';

const URL = 'http://127.0.0.1:8000';
const JOB = {
  id: 'm~1',
  state: 'failed',
  created_at: '2026-01-01T00:00:00.000Z',
  attempts_made: 3,
  attempts_max: 3,
  tags: ['a', 'b'],
  error: { code: 'INTERNAL', message: 'x' },
};
const DONE = { id: 'm~1', state: 'completed', created_at: JOB.created_at, attempts_made: 1, attempts_max: 3 };

/** Status and body; or the parts of one that breaks off where it says so. */
type Answer =
  | readonly [status: number, body: unknown]
  | Error
  | { readonly parts: readonly string[]; readonly broken?: true };

function broken(parts: readonly string[]): ReadableStream<Uint8Array> {
  const left = parts.map((part) => Buffer.from(part));
  return new ReadableStream({
    pull(controller) {
      const part = left.shift();
      if (part === undefined) controller.error(new Error('broken'));
      else controller.enqueue(new Uint8Array(part));
    },
  });
}

function callHost(answers: readonly Answer[]) {
  const calls: string[] = [];
  let pauses = 0;
  let out = '';
  let err = '';
  const host: WatchHost = {
    env: {},
    async fetch(url, { method = 'GET', headers }) {
      calls.push([method, url, ...Object.entries(headers ?? {}).flat()].join(' ').replace(URL, ''));
      const answer = answers[calls.length - 1];
      if (answer === undefined || answer instanceof Error) throw answer ?? new Error('one call too many');
      if ('parts' in answer) {
        return new Response(answer.broken === true ? broken(answer.parts) : answer.parts.join(''), { status: 200 });
      }
      const [status, body] = answer;
      if (status === 204) return new Response(null, { status });
      return new Response(JSON.stringify(body), { status });
    },
    stdout: (text) => {
      out += text;
    },
    stderr: (text) => {
      err += text;
    },
    async pause() {
      pauses++;
    },
  };
  return { host, calls, told: () => ({ out, err }), pauses: () => pauses };
}

const one = { url: URL, id: 'm~1' };

describe('nereid jobs', () => {
  it('ls asks page by page until it has enough, and says that there may be more', async () => {
    const jobs = Array.from({ length: 100 }, () => DONE);
    const { host, calls, told } = callHost([
      [200, { jobs, next: 'a' }],
      [200, { jobs: [], next: 'b' }],
      [200, { jobs: [JOB], next: 'c' }],
    ]);
    expect(await listJobs({ url: URL, model: 'm', state: 'failed', limit: 101, json: false }, host)).toBe(0);
    expect(calls).toEqual([
      'GET /v2/jobs?model=m&state=failed&limit=100',
      'GET /v2/jobs?model=m&state=failed&limit=1&after=a',
      'GET /v2/jobs?model=m&state=failed&limit=1&after=b',
    ]);
    const { out, err } = told();
    expect(out.split('\n').at(-3)).toBe(
      '| m~1 | failed    | 2026-01-01T00:00:00.000Z | 3 of 3   | a, b | INTERNAL: x |',
    );
    expect(err).toBe('nereid jobs ls: there may be more than 101: raise --limit\n');
  });

  it('ls --json gives the jobs as they are', async () => {
    const { host, told } = callHost([[200, { jobs: [JOB] }]]);
    expect(await listJobs({ url: URL, limit: 5, json: true }, host)).toBe(0);
    expect(told()).toEqual({ out: `${JSON.stringify([JOB])}\n`, err: '' });
  });

  it('show tells a job line by line', async () => {
    const { host, calls, told } = callHost([[200, JOB]]);
    expect(await showJob({ ...one, json: false }, host)).toBe(0);
    expect(calls).toEqual(['GET /v2/jobs/m~1']);
    expect(told().out).toBe(
      [
        'id             m~1',
        'state          failed',
        'created_at     2026-01-01T00:00:00.000Z',
        'attempts_made  3',
        'attempts_max   3',
        'tags           a, b',
        'error          INTERNAL: x',
        '',
      ].join('\n'),
    );
  });

  it.each([
    ['retry', retryJob, [202, { id: 'm~1', state: 'waiting' }], 'POST /v2/jobs/m~1/retry', 'm~1 waiting\n'],
    [
      'cancel',
      cancelJob,
      [200, { id: 'm~1', state: 'cancelled', error: { code: 'CANCELLED', message: 'c' } }],
      'DELETE /v2/jobs/m~1?only=cancel',
      'm~1 cancelled: CANCELLED: c\n',
    ],
    ['rm', removeJob, [204, undefined], 'DELETE /v2/jobs/m~1?only=remove', 'removed m~1\n'],
  ] as const)('%s', async (_what, run, answer, call, out) => {
    const { host, calls, told } = callHost([answer]);
    expect(await run(one, host)).toBe(0);
    expect(calls).toEqual([call]);
    expect(told()).toEqual({ out, err: '' });
  });

  it('a refusal is one line on standard error', async () => {
    const { host, told } = callHost([[409, { error: "job 'm~1' is running: cancel it", code: 'INVALID_ARG' }]]);
    expect(await removeJob(one, host)).toBe(1);
    expect(told()).toEqual({ out: '', err: "nereid jobs rm: job 'm~1' is running: cancel it\n" });
  });
});

describe('nereid jobs watch', () => {
  const state = (id: string, name: string) =>
    `id: ${id}\nevent: state\ndata: ${JSON.stringify({ id: 'm~1', state: name })}\n\n`;
  const end = (id: string, job: object) => `id: ${id}\nevent: end\ndata: ${JSON.stringify(job)}\n\n`;
  const output = (id: string, n: number) => `id: ${id}\nevent: output\ndata: {"n":${n},"outputs":[]}\n\n`;

  it('tells each event, and ends with 0 where the job has completed', async () => {
    const parts = [
      'retry: 1000\n\n',
      state('1-0', 'running'),
      ':\n\n',
      output('2-0', 1),
      'id: 3-0\nevent: progress\ndata: 40\n\n',
    ];
    const { host, told } = callHost([{ parts: [...parts, end('4-0', DONE)] }]);
    expect(await watchJob({ ...one, json: false }, host)).toBe(0);
    expect(told()).toEqual({ out: 'm~1 running\noutput 1 []\nprogress 40\nm~1 completed\n', err: '' });
  });

  it('ends with 1 where it has failed', async () => {
    const { host, told } = callHost([{ parts: [end('4-0', JOB)] }]);
    expect(await watchJob({ ...one, json: true }, host)).toBe(1);
    expect(JSON.parse(told().out)).toEqual({ event: 'end', id: '4-0', data: JOB });
  });

  it('goes on behind the last event where its connection breaks, through a gateway that is away', async () => {
    const { host, calls, told, pauses } = callHost([
      { parts: [state('1-0', 'running'), 'id: 2-0\nevent: output\ndata: {"n"'], broken: true },
      new Error('refused'),
      [503, { error: 'stopping' }],
      { parts: [output('2-0', 1)] },
      { parts: [end('4-0', DONE)] },
    ]);
    expect(await watchJob({ ...one, json: false }, host)).toBe(0);
    expect(calls).toEqual([
      'GET /v2/jobs/m~1/events',
      'GET /v2/jobs/m~1/events Last-Event-ID 1-0',
      'GET /v2/jobs/m~1/events Last-Event-ID 1-0',
      'GET /v2/jobs/m~1/events Last-Event-ID 1-0',
      'GET /v2/jobs/m~1/events Last-Event-ID 2-0',
    ]);
    expect(told()).toEqual({ out: 'm~1 running\noutput 1 []\nm~1 completed\n', err: '' });
    expect(pauses()).toBe(4);
  });

  it.each<[string, Answer, string]>([
    ['an unknown job', [404, { error: "job 'm~1' is not found" }], "job 'm~1' is not found"],
    ['no server', new Error('refused'), `no server answers at ${URL} (refused): start one, or name another by --url`],
  ])('%s is told at once', async (_what, answer, text) => {
    const { host, told } = callHost([answer]);
    expect(await watchJob({ ...one, json: false }, host)).toBe(1);
    expect(told()).toEqual({ out: '', err: `nereid jobs watch: ${text}\n` });
  });

  it('gives up where no gateway comes back', async () => {
    const { host, calls, told } = callHost([{ parts: [state('1-0', 'running')], broken: true }]);
    expect(await watchJob({ ...one, json: false }, host)).toBe(1);
    expect(calls.length).toBeGreaterThan(50);
    expect(told().err).toContain('no server answers at');
  });
});

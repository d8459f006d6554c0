import { describe, expect, it } from 'vitest';
import { listLetters, type ReplayHost, removeLetter, replayLetter, showLetter } from './dead-letters.ts';
import { resendWebhook, showWebhook } from './webhooks.ts';

const URL = 'http://127.0.0.1:8000';
const LETTER = {
  id: 'm~1',
  error: { code: 'POISONED', message: 'x' },
  attempts_made: 2,
  died_at: '2026-01-01T00:00:00.000Z',
};
const DELIVERY = {
  job_id: 'm~1',
  url: 'https://a.example',
  state: 'waiting',
  attempts_made: 2,
  attempts_max: 12,
  error: 'answered 500',
};

function callHost(answers: readonly (readonly [status: number, body: unknown])[], files: Record<string, string> = {}) {
  const calls: string[] = [];
  let out = '';
  let err = '';
  const host: ReplayHost = {
    env: { NEREID_ADMIN_KEY: 'k' },
    async fetch(url, { method, headers, body }) {
      expect(headers).toMatchObject({ 'Nereid-Admin-Key': 'k' });
      calls.push(`${method} ${url.href.replace(URL, '')}${typeof body === 'string' ? ` ${body}` : ''}`);
      const [status, answer] = answers[calls.length - 1] ?? [500, {}];
      return new Response(JSON.stringify(answer), { status });
    },
    readFile(path) {
      const text = files[path];
      if (text === undefined) throw new Error('no such file');
      return text;
    },
    stdout: (text) => {
      out += text;
    },
    stderr: (text) => {
      err += text;
    },
  };
  return { host, calls, told: () => ({ out, err }) };
}

const one = { url: URL, id: 'm~1' };

describe('nereid deadletters', () => {
  it('ls asks page by page', async () => {
    const { host, calls, told } = callHost([
      [200, { deadletters: [], next: 'a' }],
      [200, { deadletters: [LETTER] }],
    ]);
    expect(await listLetters({ url: URL, model: 'm', json: false }, host)).toBe(0);
    expect(calls).toEqual([
      'GET /nereid/v1/deadletters?model=m&limit=1000',
      'GET /nereid/v1/deadletters?model=m&limit=1000&after=a',
    ]);
    expect(told().out).toContain('| m~1 | 2026-01-01T00:00:00.000Z | 2        | POISONED: x |');
  });

  it('show prints what the server tells', async () => {
    const { host, calls, told } = callHost([[200, { ...LETTER, data: { inputs: [] } }]]);
    expect(await showLetter(one, host)).toBe(0);
    expect(calls).toEqual(['GET /nereid/v1/deadletters/m~1']);
    expect(JSON.parse(told().out)).toEqual({ ...LETTER, data: { inputs: [] } });
  });

  it.each([
    [undefined, 'POST /nereid/v1/deadletters/m~1/replay'],
    ['f.json', 'POST /nereid/v1/deadletters/m~1/replay {"data":{"inputs":[]}}'],
  ])('replay with the data of %s', async (data, call) => {
    const { host, calls, told } = callHost([[202, { id: 'm~1', state: 'waiting' }]], { 'f.json': '{"inputs": []}' });
    expect(await replayLetter({ ...one, ...(data === undefined ? {} : { data }) }, host)).toBe(0);
    expect(calls).toEqual([call]);
    expect(told()).toEqual({ out: 'm~1 waiting\n', err: '' });
  });

  it.each([
    ['none.json', 'no such file'],
    ['f.json', 'Expected'],
  ])('replay with %s asks nobody', async (data, why) => {
    const { host, calls, told } = callHost([], { 'f.json': '{' });
    expect(await replayLetter({ ...one, data }, host)).toBe(2);
    expect(calls).toEqual([]);
    expect(told().err).toMatch(new RegExp(`^nereid deadletters replay: --data=${data} is no file of JSON: .*${why}`));
  });

  it('rm, and a refusal', async () => {
    const { host, calls, told } = callHost([
      [200, { id: 'm~1' }],
      [404, { error: "dead letter 'm~1' is not found" }],
    ]);
    expect(await removeLetter(one, host)).toBe(0);
    expect(await removeLetter(one, host)).toBe(1);
    expect(calls[0]).toBe('DELETE /nereid/v1/deadletters/m~1');
    expect(told()).toEqual({
      out: 'removed m~1\n',
      err: "nereid deadletters rm: dead letter 'm~1' is not found\n",
    });
  });
});

describe('nereid webhooks', () => {
  it.each([
    ['show', showWebhook, 'GET'],
    ['resend', resendWebhook, 'POST'],
  ] as const)('%s', async (_name, run, method) => {
    const { host, calls, told } = callHost([[200, DELIVERY]]);
    expect(await run(one, host)).toBe(0);
    expect(calls).toEqual([`${method} /v2/jobs/m~1/webhook`]);
    expect(told().out).toBe('m~1 waiting to https://a.example, 2 of 12 attempts: answered 500\n');
  });
});

import { describe, expect, it } from 'vitest';
import { evictSequence, listSequences } from './sequences.ts';
import type { CallHost } from './server-call.ts';

const KEPT = {
  model: 'm',
  version: '1',
  sequence_id: 5,
  session: 'gw-1:7',
  worker: 'wk-1',
  instance: 'm_0_1',
  slot: 2,
  steps: 4,
  waiting: 1,
  idle_ms: 1_500,
  age_ms: 62_040,
};
const WAITS = { ...KEPT, session: 'gw-1:8', sequence_id: 'é', worker: undefined, backlog: 3 };

type Answer = readonly [status: number, body: unknown] | Error;

/** A process whose calls get these answers in turn. */
function callHost(answers: readonly Answer[], env: CallHost['env'] = {}) {
  const calls: string[] = [];
  let out = '';
  let err = '';
  const host: CallHost = {
    env,
    async fetch(url, { method, headers }) {
      calls.push([method, url, ...Object.entries(headers ?? {}).flat()].join(' '));
      const answer = answers[calls.length - 1];
      if (answer === undefined || answer instanceof Error) throw answer ?? new Error('one call too many');
      const [status, body] = answer;
      return new Response(typeof body === 'string' ? body : JSON.stringify(body), { status });
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

const URL = 'http://127.0.0.1:8000';

describe('nereid sequences ls', () => {
  it('prints a table of all of them', async () => {
    const { host, calls, told } = callHost([[200, { sequences: [KEPT, WAITS] }]]);
    expect(await listSequences({ url: URL, json: false }, host)).toBe(0);
    expect(calls).toEqual([`GET ${URL}/nereid/v1/sequences?limit=1000`]);
    expect(told()).toEqual({
      err: '',
      out: `${[
        '+-------+---------+----------+---------+-------------------+-------+---------+-------+--------+',
        '| Model | Version | Sequence | Session | Where             | Steps | Waiting | Idle  | Age    |',
        '+-------+---------+----------+---------+-------------------+-------+---------+-------+--------+',
        '| m     | 1       | 5        | gw-1:7  | wk-1 m_0_1 slot 2 | 4     | 1       | 1.5 s | 62.0 s |',
        '| m     | 1       | é        | gw-1:8  | backlog 3         | 4     | 1       | 1.5 s | 62.0 s |',
        '+-------+---------+----------+---------+-------------------+-------+---------+-------+--------+',
      ].join('\n')}\n`,
    });
  });

  it('asks until all are told, below the path of the URL, of the model alone', async () => {
    const { host, calls, told } = callHost([
      [200, { sequences: [KEPT], next: 'm/gw-1:7' }],
      [200, { sequences: [WAITS] }],
    ]);
    expect(await listSequences({ url: 'https://h/triton/', model: 'm', json: true }, host)).toBe(0);
    expect(calls).toEqual([
      'GET https://h/triton/nereid/v1/sequences?model=m&limit=1000',
      'GET https://h/triton/nereid/v1/sequences?model=m&limit=1000&after=m%2Fgw-1%3A7',
    ]);
    expect(JSON.parse(told().out)).toEqual(JSON.parse(JSON.stringify([KEPT, WAITS])));
  });

  it.each<[string, string, Answer, number, string]>([
    ['a server says why not', URL, [404, { error: 'no such model', code: 'NOT_FOUND' }], 1, 'no such model'],
    ['nobody answers', URL, new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }), 1, 'ECONNREFUSED'],
    ['it is another server', URL, [404, '<html>'], 1, "is it a Nereid server's HTTP port?"],
    ['it is another server that says yes', URL, [200, '<html>'], 1, "is it a Nereid server's HTTP port?"],
    ['it is another server of JSON', URL, [200, {}], 1, "is it a Nereid server's HTTP port?"],
    ['it is one that has nothing to say', URL, [200, null], 1, "is it a Nereid server's HTTP port?"],
    ['the URL is none', 'localhost:8000', [200, {}], 2, '--url=localhost:8000'],
  ])('fails in one line where %s', async (_name, url, answer, exitCode, text) => {
    const { host, told } = callHost([answer]);
    expect(await listSequences({ url, json: false }, host)).toBe(exitCode);
    expect(told().out).toBe('');
    expect(told().err).toMatch(/^nereid sequences ls: [^\n]*\n$/);
    expect(told().err).toContain(text);
  });
});

describe('nereid sequences evict', () => {
  it('ends one, with the admin key of the environment', async () => {
    const { host, calls, told } = callHost([[200, KEPT]], { NEREID_ADMIN_KEY: 'secret' });
    expect(await evictSequence({ url: URL, session: 'gw-1:7' }, host)).toBe(0);
    expect(calls).toEqual([`DELETE ${URL}/nereid/v1/sequences/gw-1%3A7 Nereid-Admin-Key secret`]);
    expect(told()).toEqual({ out: 'ended sequence 5 of model m after 4 steps\n', err: '' });
  });

  it('tells why not', async () => {
    const { host, told } = callHost([[403, { error: 'this call needs the key', code: 'INVALID_ARG' }]]);
    expect(await evictSequence({ url: URL, session: 'x', model: 'm' }, host)).toBe(1);
    expect(told().err).toBe('nereid sequences evict: this call needs the key\n');
  });
});

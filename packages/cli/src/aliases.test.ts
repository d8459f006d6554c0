import { expect, it } from 'vitest';
import { listAliases, promoteAlias, removeAlias, rollBackAlias, setAlias } from './aliases.ts';
import type { CallHost } from './server-call.ts';

const URL_GIVEN = 'http://h:1';
const ALIAS = {
  name: 'a',
  model: 'm',
  versions: [
    { version: '1', weight: 3 },
    { version: '2', weight: 1 },
  ],
  shadow: { version: '2', share: 0.5 },
  before: [{ version: '1', weight: 1 }],
};

function host(answer: unknown, status = 200) {
  const seen = { out: '', err: '', calls: [] as unknown[] };
  const fake: CallHost = {
    env: {},
    fetch: async (url, { method, body }) => {
      seen.calls.push([method, `${url.pathname}`, body === undefined ? undefined : JSON.parse(String(body))]);
      return new Response(JSON.stringify(answer), { status });
    },
    stdout: (text) => {
      seen.out += text;
    },
    stderr: (text) => {
      seen.err += text;
    },
  };
  return { fake, seen };
}

it('ls shows what each stands for', async () => {
  const { fake, seen } = host({ aliases: [ALIAS, { ...ALIAS, name: 'b', shadow: undefined, before: undefined }] });
  expect(await listAliases({ url: URL_GIVEN, json: false }, fake)).toBe(0);
  expect(seen.out).toMatch(/\| a +\| m +\| 1 \(75 %\), 2 \(25 %\) +\| 2 \(50 %\) +\| 1 \(100 %\) +\|/);
  expect(seen.out).toMatch(/\| b +\| m +\| 1 \(75 %\), 2 \(25 %\) +\| - +\| - +\|/);
});

it('set sends versions with their weights, and where copies go', async () => {
  const { fake, seen } = host(ALIAS);
  const options = { url: URL_GIVEN, name: 'a b', model: 'm', versions: ['1=3', '2'], shadow: '2=0.5', atol: '1e-6' };
  expect(await setAlias(options, fake)).toBe(0);
  expect(seen.calls).toEqual([
    [
      'PUT',
      '/nereid/v1/aliases/a%20b',
      {
        model: 'm',
        versions: [
          { version: '1', weight: 3 },
          { version: '2', weight: 1 },
        ],
        shadow: { version: '2', share: 0.5, atol: 1e-6 },
      },
    ],
  ]);
  expect(seen.out).toBe('a stands for m: 1 (75 %), 2 (25 %)\n');
});

it('promote, rollback and rm are one call each', async () => {
  const { fake, seen } = host(ALIAS);
  const options = { url: URL_GIVEN, name: 'a' };
  expect(await promoteAlias({ ...options, version: '2' }, fake)).toBe(0);
  expect(await rollBackAlias(options, fake)).toBe(0);
  expect(await removeAlias(options, fake)).toBe(0);
  expect(seen.calls).toEqual([
    ['POST', '/nereid/v1/aliases/a/promote', { version: '2' }],
    ['POST', '/nereid/v1/aliases/a/rollback', undefined],
    ['DELETE', '/nereid/v1/aliases/a', undefined],
  ]);
});

it('a refusal is one line with the reason', async () => {
  const { fake, seen } = host({ error: "alias 'a': versions[0].weight must be a number", code: 'INVALID_ARG' }, 400);
  expect(await setAlias({ url: URL_GIVEN, name: 'a', model: 'm', versions: ['1=much'] }, fake)).toBe(1);
  expect(seen.err).toBe("nereid aliases set: alias 'a': versions[0].weight must be a number\n");
});

import { describe, expect, it } from 'vitest';
import { API_CATEGORIES, parseRestricted } from '../restricted.ts';
import { httpFixture } from './http-fixture.ts';

async function restricted(...entries: readonly string[]) {
  const parsed = parseRestricted(entries);
  if (!parsed.ok) throw new Error(parsed.error.message);
  const { http } = await httpFixture({ http: { restricted: parsed.value } });
  return http;
}

const text = (header: string) => `This API is restricted, expecting header '${header}'`;

describe('a restricted group', () => {
  it.each([
    ['GET', '/v2/models/simple/config'],
    ['GET', '/v2/models/missing/config'],
    ['GET', '/v2/models/simple/versions/1/config'],
    ['DELETE', '/v2/models/simple/config'],
    ['POST', '/v2/models/missing/config'],
  ] as const)('answers %s %s before it looks at method and model', async (method, url) => {
    const http = await restricted('model-config:Admin-Key=secret');
    for (const headers of [{}, { 'admin-key': 'wrong' }, { 'admin-key': 'secre' }, { 'other-key': 'secret' }]) {
      const answer = await http.inject({ method, url, headers });
      expect([answer.statusCode, answer.body]).toEqual([403, JSON.stringify({ error: text('Admin-Key') })]);
      expect(answer.headers['nereid-error']).toBe('INVALID_ARG; field=Admin-Key');
    }
  });

  it('is served to who brings the key, whatever the case of its name', async () => {
    const http = await restricted('model-config:Admin-Key=secret');
    for (const name of ['admin-key', 'Admin-Key', 'ADMIN-KEY']) {
      const answer = await http.inject({
        method: 'GET',
        url: '/v2/models/simple/config',
        headers: { [name]: 'secret' },
      });
      expect(answer.statusCode).toBe(200);
    }
    const wrongMethod = await http.inject({
      method: 'DELETE',
      url: '/v2/models/simple/config',
      headers: { 'admin-key': 'secret' },
    });
    expect(wrongMethod.statusCode).toBe(405);
  });

  it('leaves the others open, and unknown paths unknown', async () => {
    const http = await restricted('model-config:k=v', 'statistics,trace:l=w');
    expect((await http.inject({ method: 'GET', url: '/v2/models/simple' })).statusCode).toBe(200);
    expect((await http.inject({ method: 'GET', url: '/v2/strange' })).statusCode).toBe(404);
  });

  it('of our own routes tells the code in the body', async () => {
    const http = await restricted('inference:k=v');
    const answer = await http.inject({ method: 'POST', url: '/v2/models/simple/jobs' });
    expect([answer.statusCode, answer.json()]).toEqual([403, { error: text('k'), code: 'INVALID_ARG', field: 'k' }]);
  });
});

it('with every group restricted nothing known is served without the key', async () => {
  const http = await restricted(`${API_CATEGORIES.join(',')}:k=v`);
  for (const url of [
    '/v2',
    '/v2/health/live',
    '/v2/models/simple/ready',
    '/v2/models/simple/infer',
    '/v2/jobs/a~1',
    '/v2/logging',
  ]) {
    for (const method of ['GET', 'POST'] as const) {
      expect([url, (await http.inject({ method, url })).statusCode]).toEqual([url, 403]);
    }
  }
});

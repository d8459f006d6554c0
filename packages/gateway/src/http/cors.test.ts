import { afterEach, describe, expect, it } from 'vitest';
import { echo } from '../gateway-fixture.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';

const PAGE = 'https://console.example.org';
const OTHER = 'https://other.example.org';
const PATH = '/v2/models/simple/infer';
const tensor = (name: string) => ({ name, datatype: 'INT32', shape: [1, 2], data: [1, 2] });
const GOOD = JSON.stringify({ inputs: [tensor('INPUT0'), tensor('INPUT1')] });

let fixture: HttpFixture;
afterEach(async () => {
  await fixture.http.close(0);
  await fixture.gateway.close();
});

/** Over a socket, since answers to infer are written past Fastify. */
async function ask(origins: readonly string[], method: string, path: string, headers: Record<string, string>) {
  fixture = await httpFixture({ answer: echo, http: { corsOrigins: origins } });
  const { url } = await fixture.http.listen();
  const body = method === 'POST' ? { body: GOOD } : {};
  const response = await fetch(url + path, { method, headers, ...body });
  await response.arrayBuffer();
  const cors = [...response.headers].filter(([name]) => name.startsWith('access-control-') || name === 'vary');
  return { status: response.status, ...Object.fromEntries(cors) };
}

const EXPOSED =
  'Inference-Header-Content-Length, Nereid-Error, Nereid-Request-Id, Retry-After, Location, Preference-Applied, Content-Encoding';

/** Of answers that may be compressed. */
const CODED = { vary: 'Accept-Encoding' };

describe('an answer', () => {
  it.each<readonly [string, readonly string[], string, string, Record<string, string>, object]>([
    ['without the flag says nothing', [], 'POST', PATH, { origin: PAGE }, { status: 200, ...CODED }],
    [
      'to no page says nothing but that it depends',
      [PAGE],
      'POST',
      PATH,
      {},
      { status: 200, vary: 'Origin, Accept-Encoding' },
    ],
    [
      'to another page says nothing',
      [PAGE],
      'POST',
      PATH,
      { origin: OTHER },
      { status: 200, vary: 'Origin, Accept-Encoding' },
    ],
    [
      'to a page of the list names it',
      [OTHER, PAGE],
      'POST',
      PATH,
      { origin: PAGE },
      {
        status: 200,
        vary: 'Origin, Accept-Encoding',
        'access-control-allow-origin': PAGE,
        'access-control-expose-headers': EXPOSED,
      },
    ],
    [
      'is for all where the list says so',
      ['*'],
      'POST',
      PATH,
      { origin: PAGE },
      { status: 200, ...CODED, 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED },
    ],
    [
      'that is an error can be read too',
      ['*'],
      'GET',
      '/v2/models/missing',
      { origin: PAGE },
      { status: 404, 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED },
    ],
  ])('%s', async (_rule, origins, method, path, headers, expected) => {
    expect(await ask(origins, method, path, headers)).toEqual(expected);
  });
});

describe('a preflight', () => {
  const asks = {
    origin: PAGE,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'inference-header-content-length,admin-key',
  };

  it('allows what the page wants to send', async () => {
    expect(await ask([PAGE], 'OPTIONS', PATH, asks)).toEqual({
      status: 204,
      vary: 'Origin',
      'access-control-allow-origin': PAGE,
      'access-control-allow-methods': 'GET, POST, DELETE',
      'access-control-allow-headers': 'inference-header-content-length,admin-key',
      'access-control-max-age': '600',
    });
  });

  it.each<readonly [string, readonly string[], Record<string, string>]>([
    ['of another page', [OTHER], asks],
    ['without the flag', [], asks],
    ['that asks for no method', [PAGE], { origin: PAGE }],
  ])('%s is a method like any other', async (_what, origins, headers) => {
    expect((await ask(origins, 'OPTIONS', PATH, headers)).status).toBe(405);
  });
});

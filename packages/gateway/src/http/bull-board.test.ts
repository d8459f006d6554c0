import { createLog, systemClock } from '@nereid/runtime';
import { connectRedis, createJobQueues, type JobQueues, timing } from '@nereid/transport';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openBullBoard } from '../bull-board.ts';
import { identity, modelRecord } from '../gateway-fixture.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';

const NEW = { createdMs: 1, priority: 0, delayMs: 0, attempts: 1, resultTtlS: 60 };

let server: RedisServerFixture;
let queues: JobQueues;
let http: HttpFixture['http'];
let keyed: HttpFixture['http'];
let close: () => Promise<void>;

beforeAll(async () => {
  server = await startRedisServer();
  const connector = connectRedis(server.url, { name: 'gateway:1' });
  queues = createJobQueues({ connector, timing: timing(), clock: systemClock(), log: createLog({ level: 'silent' }) });
  const records = [modelRecord(identity('m', 'FP32'))];
  const { directory } = await httpFixture({ models: records });
  const bullBoard = await openBullBoard({ queues, directory });
  ({ http } = await httpFixture({ models: records, http: { bullBoard } }));
  ({ http: keyed } = await httpFixture({ models: records, http: { bullBoard, adminKey: 'secret' } }));
  await queues.add('m', { ...NEW, id: 'A', data: { inputs: [] } });
  await queues.add('m', { ...NEW, id: 'B', data: { inputs: [] } });
  close = async () => {
    await http.close(100);
    await keyed.close(100);
    await bullBoard.close();
    await queues.close();
    connector.close();
  };
});
afterAll(async () => {
  await close();
  await server.stop();
});

const BASIC = `Basic ${Buffer.from('anyone:secret').toString('base64')}`;

describe("bull-board's page", () => {
  test('comes with its own files, and asks nobody else for some', async () => {
    const page = await http.inject('/bull-board/');
    expect(page.statusCode).toBe(200);
    expect(page.headers['content-security-policy']).toContain("default-src 'self'");
    expect(page.body).toContain('<base href="/bull-board/"');
    expect(page.body).not.toMatch(/https?:\/\/(?!www\.w3\.org)/);
    expect(page.body).not.toContain('<%');
    const scripts = [...page.body.matchAll(/src="(static\/[^"]+)"/g)].map(([, path]) => path);
    expect(scripts.length).toBeGreaterThan(0);
    for (const path of scripts) {
      const script = await http.inject(`/bull-board/${path}`);
      expect([script.statusCode, script.headers['content-type']]).toEqual([200, 'text/javascript; charset=utf-8']);
    }
    expect((await http.inject('/bull-board/queue/infer.m')).body).toBe(page.body);
    expect((await http.inject('/bull-board')).headers.location).toBe('/bull-board/');
  });

  test('tells the queues of each model, for reading', async () => {
    const { queues: told } = (await http.inject('/bull-board/api/queues?activeQueue=infer.m')).json();
    expect(told).toMatchObject([
      { name: 'infer.m', readOnlyMode: true, counts: { waiting: 2 } },
      { name: 'dead.m', readOnlyMode: true },
      { name: 'hooks.m', readOnlyMode: true },
    ]);
  });

  test.each([
    '/bull-board/static/../index.ejs',
    '/bull-board/static/%2e%2e/index.ejs',
    '/bull-board/static/js/none.js',
    '/bull-board/none',
  ])('has nothing at %s', async (url) => expect((await http.inject(url)).statusCode).toBe(404));

  test('changes nothing', async () => {
    const refused = await http.inject({ method: 'PUT', url: '/bull-board/api/queues/infer.m/A/clean' });
    expect(refused.statusCode).toBe(405);
    expect(await queues.find('m', 'A')).toBeDefined();
  });
});

describe('its page for admins', () => {
  const remove = (headers: Record<string, string>, remoteAddress = '10.0.0.1') => ({
    method: 'PUT' as const,
    url: '/bull-board/admin/api/queues/infer.m/A/clean',
    headers: { host: 'a.example', ...headers },
    remoteAddress,
  });

  test.each<[string, Record<string, string>]>([
    ['no key', {}],
    ['another key', { 'nereid-admin-key': 'x' }],
    ['another password', { authorization: `Basic ${Buffer.from('a:x').toString('base64')}` }],
    ["the password, from another site's page", { authorization: BASIC, origin: 'https://b.example' }],
  ])('refuses %s', async (_what, headers) => {
    const refused = await keyed.inject(remove(headers));
    expect([refused.statusCode, refused.headers['www-authenticate']]).toEqual([401, expect.stringMatching(/^Basic /)]);
    expect(await queues.find('m', 'A')).toBeDefined();
  });

  test('without a key is for this machine', async () => {
    expect((await http.inject(remove({}))).statusCode).toBe(403);
    const local = await http.inject({
      url: '/bull-board/admin/',
      headers: { host: 'localhost' },
      remoteAddress: '127.0.0.1',
    });
    expect(local.body).toContain('<base href="/bull-board/admin/"');
  });

  test('removes a job', async () => {
    const done = await keyed.inject(remove({ authorization: BASIC, origin: 'http://a.example' }));
    expect(done.statusCode).toBeLessThan(300);
    expect(await queues.find('m', 'A')).toBeUndefined();
    const { queues: told } = (
      await keyed.inject({ url: '/bull-board/admin/api/queues', headers: { 'nereid-admin-key': 'secret' } })
    ).json();
    expect(told).toMatchObject([{ readOnlyMode: false }, {}, {}]);
  });
});

test('without the flag there is no page', async () => {
  const { http: plain } = await httpFixture({ models: [] });
  expect((await plain.inject('/bull-board/')).statusCode).toBe(404);
});

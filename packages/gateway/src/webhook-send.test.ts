import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { NEVER_CALLED } from './webhook-addresses.ts';
import { createWebhookSender } from './webhook-send.ts';

const SECRET = `whsec_${Buffer.alloc(24, 1).toString('base64')}`;
const NEXT_SECRET = `whsec_${Buffer.alloc(32, 2).toString('base64')}`;
const MESSAGE = { id: 'msg_1', body: '{"type":"job.completed","data":{"text":"ü"}}' };

let server: Server;
let url: string;
let calls: { readonly path: string | undefined; readonly headers: IncomingHttpHeaders; readonly body: string }[];
let status: number;

beforeEach(async () => {
  calls = [];
  status = 204;
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      calls.push({ path: request.url, headers: request.headers, body });
      response.writeHead(status, { Location: '/elsewhere' }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?a=b`;
});
afterEach(() => new Promise<void>((resolve) => server.close(() => resolve())));

const sender = (allowPrivate: boolean, secrets = [SECRET]) =>
  createWebhookSender({ secrets, allowPrivate }, () => Date.now());

test('a message is sent so that a receiver with the secret, old or new, can verify it', async () => {
  expect(await sender(true, [SECRET, NEXT_SECRET]).send(url, MESSAGE)).toEqual({ ok: true });
  const [call] = calls;
  expect(call).toMatchObject({ path: '/hook?a=b', body: MESSAGE.body });
  const headers = call?.headers as Record<string, string>;
  expect(headers['webhook-id']).toBe('msg_1');
  for (const secret of [SECRET, NEXT_SECRET]) {
    expect(new Webhook(secret).verify(call?.body ?? '', headers)).toMatchObject({ type: 'job.completed' });
  }
  expect(() => new Webhook(SECRET).verify(`${call?.body} `, headers)).toThrow();
});

test.each<[number, unknown]>([
  [200, { ok: true }],
  [302, { ok: false, reason: 'answered 302: redirects are not followed', final: false }],
  [404, { ok: false, reason: 'answered 404', final: false }],
  [410, { ok: false, reason: 'answered 410', final: true }],
  [500, { ok: false, reason: 'answered 500', final: false }],
])('an answer of %i', async (code, expected) => {
  status = code;
  expect(await sender(true).send(url, MESSAGE)).toEqual(expected);
  expect(calls.length).toBe(1);
});

test('a closed port is tried again (BC-136)', async () => {
  await new Promise<void>((resolve) => server.close(() => resolve()));
  expect(await sender(true).send(url, MESSAGE)).toEqual({
    ok: false,
    reason: expect.stringContaining('ECONNREFUSED'),
    final: false,
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

test.each([
  '127.0.0.1',
  'localhost',
  '0x7f000001',
  '2130706433',
  '127.1',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '0.0.0.0',
  '10.0.0.1',
  '192.168.1.1',
  '172.16.0.1',
  '[fd00::1]',
])('%s is not called', async (host) => {
  const target = `http://${host}:${new URL(url).port}/`;
  expect(await sender(false).send(target, MESSAGE)).toEqual({
    ok: false,
    reason: expect.stringMatching(/private.*--webhook-allow-private/),
    final: true,
  });
  expect(calls).toEqual([]);
});

test.each(['169.254.169.254', '[::ffff:169.254.169.254]'])(
  'not even with --webhook-allow-private is %s called, where clouds keep credentials',
  async (host) => {
    const refused = { ok: false, reason: NEVER_CALLED, final: true };
    expect(await sender(true).send(`http://${host}/latest`, MESSAGE)).toEqual(refused);
  },
);

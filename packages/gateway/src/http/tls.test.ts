import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { createBytesInFlight } from '@nereid/caller';
import { virtualClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Certified, certify } from '../certificate-fixture.ts';
import { readDoorTls } from '../door-tls.ts';
import { echo, responseTo } from '../gateway-fixture.ts';
import { type HttpFixture, httpFixture, openConnection, post } from './http-fixture.ts';
import type { HttpServerOptions } from './server.ts';

const PATH = '/v2/models/simple/infer';
const tensor = (name: string) => ({ name, datatype: 'INT32', shape: [1, 2], data: [1, 2] });
const GOOD = JSON.stringify({ inputs: [tensor('INPUT0'), tensor('INPUT1')] });

const authority = certify('authority');
const server = certify('server', authority);
const clients = certify('authority of clients');
const client = certify('client', clients);
const stranger = certify('stranger', certify('another authority'));

let folder: string;
let fixture: HttpFixture;
let url: string;
const clock = virtualClock();

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-tls-'));
});
afterEach(async () => {
  await fixture.http.close(0);
  await fixture.gateway.close();
  rmSync(folder, { recursive: true });
});

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function serve(mutual = false, options: Partial<HttpServerOptions> = {}, answer: typeof echo | null = echo) {
  const files = {
    cert: file('cert', server.cert),
    key: file('key', server.key),
    ...(mutual ? { clientCa: file('ca', clients.cert) } : {}),
  };
  const read = readDoorTls('http', files);
  if (!read.ok) throw new Error(read.error.message);
  const http = { tls: read.value, clock, ...options };
  fixture = await httpFixture({ http, ...(answer === null ? {} : { answer }) });
  ({ url } = await fixture.http.listen());
}

interface Asked {
  readonly ca?: string;
  readonly by?: Certified;
  readonly path?: string;
  readonly body?: string;
}

/** The answer and the certificate that the server showed, or the error. */
function ask({ ca = authority.cert, by, path = PATH, body = GOOD }: Asked = {}) {
  const options: RequestOptions = {
    method: 'POST',
    ca,
    agent: false,
    ...(by === undefined ? {} : { cert: by.cert, key: by.key }),
  };
  return new Promise<{ status: number; text: string; shown: string } | Error>((resolve) => {
    const sent = request(`${url}${path}`, options, (response) => {
      const shown = String((response.socket as TLSSocket).getPeerCertificate().subject.CN);
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text, shown }));
    });
    sent.on('error', resolve);
    sent.end(body);
  });
}

describe('HTTP over TLS', () => {
  it('serves clients that trust its certificate', async () => {
    await serve();
    expect(url).toMatch(/^https:\/\/127\.0\.0\.1:/);
    expect(await ask()).toMatchObject({ status: 200, shown: 'server', text: expect.stringContaining('"OUTPUT1"') });
    expect(await ask({ ca: clients.cert })).toBeInstanceOf(Error);
  });

  it('answers mistakes as without it', async () => {
    await serve();
    expect(await ask({ path: '/v2/strange' })).toMatchObject({ status: 404, text: '{"error":"Not Found"}' });
    expect(await ask({ body: '{' })).toMatchObject({ status: 400 });
  });

  it('ends a connection that speaks no TLS, and goes on', async () => {
    await serve();
    const plain = await openConnection(url.replace('https', 'http'));
    plain.socket.write(post(PATH, GOOD));
    expect(await plain.ended()).not.toContain('HTTP/1.1 200');
    expect(await ask()).toMatchObject({ status: 200 });
  });

  it('cancels the request of a client that leaves, and lets its bytes go', async () => {
    const bytesInFlight = createBytesInFlight(100_000_000);
    await serve(false, { bytesInFlight }, null);
    const { port } = new URL(url);
    const socket = connectTls({ port: Number(port), host: '127.0.0.1', ca: authority.cert });
    socket.on('error', () => {});
    socket.write(post(PATH, GOOD));
    await fixture.arrived(1);
    expect(bytesInFlight.held).toBe(GOOD.length);
    socket.destroy();
    await fixture.arrived(2);
    expect(fixture.received.map(({ kind }) => kind)).toEqual(['infer', 'cancel']);
    await expect.poll(() => bytesInFlight.held).toBe(0);
  });

  it('uses new files for new connections', async () => {
    await serve();
    const renewed = certify('renewed', authority);
    file('cert', renewed.cert);
    file('key', renewed.key);
    clock.advanceUs(10_000_000);
    expect(await ask()).toMatchObject({ status: 200, shown: 'renewed' });
  });

  it('stops without waiting for connections that have not agreed on TLS or are idle', async () => {
    await serve();
    const { port } = new URL(url);
    const silent = connect(Number(port), '127.0.0.1');
    const idle = connectTls({ port: Number(port), host: '127.0.0.1', ca: authority.cert });
    const closed = [silent, idle].map(
      (socket) => new Promise((resolve) => socket.on('error', () => {}).once('close', resolve)),
    );
    await Promise.all([
      new Promise<void>((resolve) => silent.once('connect', () => resolve())),
      new Promise<void>((resolve) => idle.once('secureConnect', () => resolve())),
    ]);
    await fixture.http.close(60_000);
    silent.resume();
    idle.resume();
    await Promise.all(closed);
  });

  it('lets running requests finish when it stops', async () => {
    await serve(false, {}, null);
    const answered = ask();
    await fixture.arrived(1);
    const closed = fixture.http.close(60_000);
    const [message] = fixture.received;
    if (message?.kind === 'infer') fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    expect(await answered).toMatchObject({ status: 200 });
    await closed;
  });
});

describe('mutual TLS', () => {
  it.each<readonly [string, Certified | undefined, boolean]>([
    ['with a certificate of its authority', client, true],
    ['with one of another authority', stranger, false],
    ['without one', undefined, false],
  ])('serves a client %s: %s', async (_who, by, served) => {
    await serve(true);
    const answer = await ask(by === undefined ? {} : { by });
    if (served) expect(answer).toMatchObject({ status: 200 });
    else expect(answer).toBeInstanceOf(Error);
    expect(fixture.received).toHaveLength(served ? 1 : 0);
  });
});

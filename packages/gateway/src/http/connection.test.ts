import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { echo, responseTo } from '../gateway-fixture.ts';
import { type Connection, type HttpFixture, httpFixture, openConnection, post } from './http-fixture.ts';

const PATH = '/v2/models/simple/infer';
const tensor = (name: string) => ({ name, datatype: 'INT32', shape: [1, 2], data: [1, 2] });
const good = (id: string) => JSON.stringify({ id, inputs: [tensor('INPUT0'), tensor('INPUT1')] });
const answered = (id: string) => new RegExp(`HTTP/1.1 200 OK[\\s\\S]*"id":"${id}"[\\s\\S]*\\}$`);

let open: { fixture: HttpFixture; connections: Connection[] } | undefined;

async function serve(options: Parameters<typeof httpFixture>[0] = { answer: echo }): Promise<HttpFixture> {
  const fixture = await httpFixture(options);
  open = { fixture, connections: [] };
  return fixture;
}

async function connection(fixture: HttpFixture): Promise<Connection> {
  const { url } = await listening(fixture);
  const opened = await openConnection(url);
  open?.connections.push(opened);
  return opened;
}

const listeners = new WeakMap<HttpFixture, Promise<{ readonly url: string }>>();

function listening(fixture: HttpFixture): Promise<{ readonly url: string }> {
  const known = listeners.get(fixture) ?? fixture.http.listen();
  listeners.set(fixture, known);
  return known;
}

/** After each scenario nothing may wait any more. */
afterEach(async () => {
  if (open === undefined) return;
  const { fixture, connections } = open;
  for (const each of connections) each.socket.destroy();
  await fixture.http.close(0);
  expect(fixture.gateway.waiting).toBe(0);
  expect(fixture.clock.liveTimers).toBe(0);
  await fixture.gateway.close();
});

describe('a request in another form', () => {
  it.each<readonly [string, string, RegExp]>([
    ['without a Host', `GET /v2 HTTP/1.1\r\n\r\n`, /^HTTP\/1.1 200 OK[\s\S]*"extensions"/],
    [
      'with an expectation that nobody knows',
      `GET /v2 HTTP/1.1\r\nHost: test\r\nExpect: the-unexpected\r\n\r\n`,
      /^HTTP\/1.1 200 OK[\s\S]*"extensions"/,
    ],
    [
      'whose target is no path',
      `GET *?x=1 HTTP/1.1\r\nHost: test\r\n\r\n`,
      /^HTTP\/1.1 404 Not Found[\s\S]*\{"error":"Not Found"\}$/,
    ],
  ])('%s is answered', async (_what, text, answer) => {
    const client = await connection(await serve());
    client.socket.write(text);
    expect(await client.until(/\}$/)).toMatch(answer);
  });
});

it('a client that goes on sending after its mistake gets its answer', async () => {
  const client = await connection(await serve());
  client.socket.pause();
  const head = 'POST /v2 HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\nContent-Length: 4000000\r\n\r\n';
  const body = Buffer.alloc(4_000_000);
  await new Promise<void>((resolve, reject) => {
    client.socket.write(head);
    client.socket.write(body, (error) => (error == null ? resolve() : reject(error)));
  });
  client.socket.resume();
  expect(await client.until(/\}$/)).toMatch(/^HTTP\/1.1 400 Bad Request[\s\S]*Duplicate Content-Length/);
});

describe('one connection', () => {
  it('goes on after errors of every kind', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    const mistakes = [
      post(PATH, '{"inputs":'),
      post('/v2/models/missing/infer', good('x')),
      post('/v2/strange', good('x')),
      post('/v2', good('x')),
      post(PATH, good('x'), ['Content-Encoding: gzip']),
      'GET /v2/models/missing HTTP/1.1\r\nHost: test\r\n\r\n',
    ];
    for (const [index, mistake] of mistakes.entries()) {
      const before = client.text().length;
      client.socket.write(mistake);
      await client.until(new RegExp(`^[\\s\\S]{${before}}HTTP/1.1 [45][\\s\\S]*\\{"error":.*\\}$`));
      client.socket.write(post(PATH, good(`after-${index}`)));
      await client.until(answered(`after-${index}`));
    }
  });

  it('answers pipelined requests in their order, whatever the order of the answers', async () => {
    const fixture = await serve({});
    const client = await connection(fixture);
    const ids = Array.from({ length: 20 }, (_, index) => `p${index}`);
    client.socket.write(ids.map((id) => post(PATH, good(id))).join(''));
    await fixture.arrived(20);
    for (const message of [...fixture.received].reverse()) {
      if (message.kind === 'infer') fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    }
    const text = await client.until(answered('p19'));
    expect([...text.matchAll(/"id":"(p\d+)"/g)].map((match) => match[1])).toEqual(ids);
  });

  it('reads bodies in pieces of any size', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    for (const byte of post(PATH, good('bytes'))) {
      await new Promise((resolve) => client.socket.write(byte, resolve));
    }
    await client.until(answered('bytes'));
  });

  it('takes 70,000 chunks of one byte', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    const body = ' '.repeat(70_000) + good('chunks');
    client.socket.write(`POST ${PATH} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n`);
    client.socket.write(`${[...body].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`);
    await client.until(answered('chunks'));
  });

  it('is told to go on by a client that waits for it', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    const [head, body] = post(PATH, good('expect'), ['Expect: 100-continue']).split('\r\n\r\n');
    client.socket.write(`${head}\r\n\r\n`);
    await client.until(/100 Continue\r\n\r\n$/);
    client.socket.write(body ?? '');
    await client.until(answered('expect'));
  });
});

describe('a body over the limit', () => {
  const limited = { answer: echo, http: { maxInputBytes: 1000 } };
  const refused = /HTTP\/1.1 400 [\s\S]*exceeds the maximum allowed input size of 1000 bytes[\s\S]*\}$/;

  it('with its length told is refused before it comes, and the connection goes on', async () => {
    const fixture = await serve(limited);
    const client = await connection(fixture);
    const [head, body = ''] = post(PATH, ' '.repeat(5000)).split('\r\n\r\n');
    client.socket.write(`${head}\r\n\r\n`);
    expect(await client.until(refused)).toContain('request JSON size of 5000 bytes');
    client.socket.write(body + post(PATH, good('next')));
    await client.until(answered('next'));
  });

  it('in chunks is refused once it is over, and the connection goes on', async () => {
    const fixture = await serve(limited);
    const client = await connection(fixture);
    client.socket.write(`POST ${PATH} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n`);
    client.socket.write(`400\r\n${' '.repeat(1024)}\r\n`);
    await client.until(refused);
    client.socket.write(`400\r\n${' '.repeat(1024)}\r\n0\r\n\r\n${post(PATH, good('next'))}`);
    await client.until(answered('next'));
  });

  it('ends the connection where it never ends', async () => {
    const fixture = await serve(limited);
    const client = await connection(fixture);
    client.socket.write(`POST ${PATH} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n`);
    const chunk = `400\r\n${' '.repeat(1024)}\r\n`;
    const send = () => {
      if (client.socket.writable) client.socket.write(chunk, send);
    };
    send();
    expect(await client.ended()).toMatch(refused);
  });
});

describe('a client that leaves', () => {
  it.each<readonly [string, (client: Connection) => void]>([
    ['by closing', (client) => client.socket.end()],
    ['by a reset', (client) => client.socket.resetAndDestroy()],
  ])('%s cancels its requests', async (_name, leave) => {
    const fixture = await serve({});
    const client = await connection(fixture);
    client.socket.write(post(PATH, good('a')) + post(PATH, good('b')));
    await fixture.arrived(2);
    expect(fixture.gateway.waiting).toBe(2);
    leave(client);
    await fixture.arrived(4);
    expect(fixture.received.map(({ kind }) => kind)).toEqual(['infer', 'infer', 'cancel', 'cancel']);
    expect(fixture.gateway.waiting).toBe(0);
  });

  it('in the middle of a request cancels those before it', async () => {
    const fixture = await serve({});
    const client = await connection(fixture);
    client.socket.write(post(PATH, good('a')) + post(PATH, good('b')).slice(0, -5));
    await fixture.arrived(1);
    client.socket.end();
    await fixture.arrived(2);
    expect(fixture.received.map(({ kind }) => kind)).toEqual(['infer', 'cancel']);
  });

  it('does not touch the requests of others', async () => {
    const fixture = await serve({});
    const [leaver, stayer] = [await connection(fixture), await connection(fixture)];
    leaver.socket.write(post(PATH, good('leaver')));
    await fixture.arrived(1);
    stayer.socket.write(post(PATH, good('stayer')));
    await fixture.arrived(2);
    leaver.socket.destroy();
    await fixture.arrived(3);
    expect(fixture.gateway.waiting).toBe(1);
    const [, message] = fixture.received;
    if (message?.kind === 'infer') fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    await stayer.until(answered('stayer'));
  });

  it('in the middle of its body leaves nothing behind', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    const whole = post(PATH, good('half'));
    client.socket.write(whole.slice(0, -10));
    client.socket.end();
    await once(client.socket, 'close');
    expect(fixture.received).toEqual([]);
  });
});

describe('what is no HTTP request', () => {
  const cases: readonly (readonly [string, string, RegExp])[] = [
    ['garbage', 'hello\r\n\r\n', /^HTTP\/1.1 400 Bad Request\r\n[\s\S]*\{"error":"malformed HTTP request: .*"\}$/],
    ['bytes of TLS', '\x16\x03\x01\x02\x00\x01\x00', /^HTTP\/1.1 400 [\s\S]*\{"error":"malformed HTTP request: .*"\}$/],
    [
      'two lengths',
      `POST ${PATH} HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc`,
      /^HTTP\/1.1 400 [\s\S]*\{"error":"malformed HTTP request: .*"\}$/,
    ],
    [
      'length and chunks',
      `POST ${PATH} HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      /^HTTP\/1.1 400 [\s\S]*\{"error":"malformed HTTP request: .*"\}$/,
    ],
    [
      'a header past its limit',
      `GET /v2 HTTP/1.1\r\nHost: test\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`,
      /^HTTP\/1.1 431 [\s\S]*\{"error":"the request header is larger than this server takes"\}$/,
    ],
    [
      'a bad chunk size',
      `POST ${PATH} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      /^HTTP\/1.1 400 [\s\S]*\{"error":"malformed HTTP request: .*"\}$/,
    ],
  ];

  it.each(cases)('is answered and ended: %s', async (_name, text, expected) => {
    const fixture = await serve();
    const client = await connection(fixture);
    client.socket.write(text, 'latin1');
    const received = await client.ended();
    expect(received).toMatch(expected);
    expect(received).toMatch(/Content-Type: application\/json\r\n/);
    const other = await connection(fixture);
    other.socket.write(post(PATH, good('other')));
    await other.until(answered('other'));
  });

  it('behind a good request does not take the place of its answer', async () => {
    const fixture = await serve({});
    const client = await connection(fixture);
    client.socket.write(`${post(PATH, good('first'))}${post(PATH, good('second'))}garbage\r\n\r\n`);
    await fixture.arrived(2);
    for (const message of fixture.received) {
      if (message.kind === 'infer') fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    }
    const text = await client.ended();
    expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200']);
    expect(text).toMatch(answered('second'));
  });

  it('since a Content-Length is too short leaves the answer about the body that it cut', async () => {
    const fixture = await serve();
    const client = await connection(fixture);
    client.socket.write(post(PATH, good('short')).replace(/(?<=Content-Length: )\d+/, (all) => `${Number(all) - 3}`));
    expect(await client.ended()).toMatch(/^HTTP\/1.1 400 [^{]*\{"error":"failed to parse the request JSON[^{]*\}$/);
  });

  it('that never ends is ended for it', async () => {
    const fixture = await serve({ answer: echo, http: { requestTimeoutMs: 1, headersTimeoutMs: 1 } });
    const client = await connection(fixture);
    client.socket.write(post(PATH, good('slow')).slice(0, -1));
    expect(await client.ended()).toMatch(/^HTTP\/1.1 408 [\s\S]*\{"error":"the request did not arrive in time"\}$/);
  });
});

describe('stopping', () => {
  it('lets running requests finish, refuses new ones, and ends the connections', async () => {
    const fixture = await serve({});
    const [busy, idle] = [await connection(fixture), await connection(fixture)];
    busy.socket.write(post(PATH, good('running')));
    await fixture.arrived(1);
    fixture.gateway.drain();
    const closed = fixture.http.close(60_000);
    expect((await fixture.http.inject({ method: 'GET', url: '/v2/health/ready' })).statusCode).toBe(400);
    expect(await idle.ended()).toBe('');
    busy.socket.write(post(PATH, good('late')));
    const [message] = fixture.received;
    if (message?.kind === 'infer') fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    const text = await busy.ended();
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\n/);
    expect(text).toMatch(/Connection: close\r\n/);
    await closed;
  });

  it.each([
    ['nothing', '', /^$/, /^$/],
    [
      'a part of a header',
      'GET /v2/health/live HTTP/1.1\r\nHost: test\r\n\r\nPOST /v2/mod',
      /^HTTP\/1.1 200 /,
      /^HTTP\/1.1 200 [^{]*$/,
    ],
    [
      'a part of a body',
      post(PATH, good('slow'), ['Expect: 100-continue']).slice(0, -1),
      /100 Continue\r\n\r\n$/,
      /100 Continue\r\n\r\nHTTP\/1.1 503 [^{]*\{"error":"Server is stopping[^{]*\}$/,
    ],
  ])('does not wait for a client that has sent %s', async (_, part, read, expected) => {
    const fixture = await serve();
    const client = await connection(fixture);
    client.socket.write(part);
    await client.until(read);
    fixture.gateway.drain();
    await fixture.http.close(60_000);
    expect(await client.ended()).toMatch(expected);
  });

  it('cuts at the deadline what still runs, and cancels it', async () => {
    const fixture = await serve({});
    const client = await connection(fixture);
    client.socket.write(post(PATH, good('running')));
    await fixture.arrived(1);
    fixture.gateway.drain();
    await fixture.http.close(1);
    expect(await client.ended()).toBe('');
    await fixture.arrived(2);
    expect(fixture.received.map(({ kind }) => kind)).toEqual(['infer', 'cancel']);
  });
});

describe('starting', () => {
  it.each([
    ['0.0.0.0', /^http:\/\/0\.0\.0\.0:[1-9][0-9]*$/],
    ['127.0.0.1', /^http:\/\/127\.0\.0\.1:[1-9][0-9]*$/],
  ])('tells the address %s that it is bound to, with its port', async (address, told) => {
    const fixture = await serve({ http: { address } });
    expect((await listening(fixture)).url).toMatch(told);
  });

  it('says which port another process has, and the flag', async () => {
    const fixture = await serve();
    const { url } = await listening(fixture);
    const { port } = new URL(url);
    const second = await httpFixture({ http: { port: Number(port) } });
    await expect(second.http.listen()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message:
        `cannot listen on 127.0.0.1:${port}: another process has that port; ` +
        'choose another with --http-port or --http-address',
    });
    await second.http.close(0);
  });
});

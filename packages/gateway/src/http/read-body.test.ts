import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createBytesInFlight } from '@nereid/caller';
import { expect, it } from 'vitest';
import { type Body, readBody } from './read-body.ts';
import { createRequestBytes, type RequestBytes } from './request-bytes.ts';

/** Room for every body here. */
function account(): RequestBytes {
  const [socket, response] = [new PassThrough(), new PassThrough()] as unknown as [Socket, ServerResponse];
  return createRequestBytes(createBytesInFlight(1_000_000))(socket, response);
}

function request(headers: Record<string, string> = {}): PassThrough & IncomingMessage {
  return Object.assign(new PassThrough(), { headers }) as unknown as PassThrough & IncomingMessage;
}

async function read(
  chunks: readonly string[],
  bytesMax = 100_000,
  headers: Record<string, string> = {},
): Promise<readonly Body[]> {
  const stream = request(headers);
  const bodies: Body[] = [];
  readBody(stream, bytesMax, (body) => bodies.push(body), account());
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await finished(stream);
  return bodies;
}

it.each([
  ['no chunk', []],
  ['one', ['abc']],
  ['several', ['a', 'bc', 'def']],
  ['a piece and none over', Array.from({ length: 1024 }, (_, index) => String(index))],
  ['a piece and one over', Array.from({ length: 1025 }, (_, index) => String(index))],
  ['many pieces', Array.from({ length: 5000 }, (_, index) => String(index))],
])('joins %s', async (_name, chunks) => {
  const [body] = await read(chunks);
  expect(body?.ok && Buffer.from(body.bytes).toString()).toBe(chunks.join(''));
});

it.each([
  ['as announced', 0],
  ['of fewer bytes than announced', 1],
  ['of more', -1],
  ['of many more', -30_000],
])('gathers a large body %s', async (_name, missing) => {
  const chunks = Array.from({ length: 4 }, (_, index) => String(index).repeat(20_000));
  const [body] = await read(chunks, 100_000, { 'content-length': String(80_000 + missing) });
  expect(body?.ok && Buffer.from(body.bytes).equals(Buffer.from(chunks.join('')))).toBe(true);
});

it.each([
  [99, true],
  [100, true],
  [101, false],
])('of %i bytes with a limit of 100 is taken: %s', async (length, ok) => {
  expect(await read(['x'.repeat(length)], 100)).toMatchObject([{ ok }]);
});

it('calls back once where it is over, however much more comes', async () => {
  expect(await read(['x'.repeat(60), 'x'.repeat(60), 'x'.repeat(60)], 100)).toMatchObject([
    { ok: false, error: { message: expect.stringContaining('size of 120 bytes') } },
  ]);
});

it('is over at once where its length says so', () => {
  const bodies: Body[] = [];
  readBody(request({ 'content-length': '101' }), 100, (body) => bodies.push(body), account());
  expect(bodies).toMatchObject([{ ok: false, error: { message: expect.stringContaining('size of 101 bytes') } }]);
});

it.each([
  ['after its last byte', '1600', 0],
  ['at once where it is far too long', '1601', 1],
])('is over %s on a connection that ends with the answer', async (_when, length, before) => {
  const stream = request({ 'content-length': length, connection: 'close' });
  const bodies: Body[] = [];
  readBody(stream, 100, (body) => bodies.push(body), account());
  expect(bodies.length).toBe(before);
  stream.end('x'.repeat(1600));
  await finished(stream);
  expect(bodies).toMatchObject([{ ok: false }]);
});

it('never calls back where the client leaves first', async () => {
  const stream = request();
  const bodies: Body[] = [];
  readBody(stream, 100, (body) => bodies.push(body), account());
  stream.write('half');
  stream.destroy();
  await finished(stream).catch(() => undefined);
  expect(bodies).toEqual([]);
});

it('ends a connection that sends sixteen times the limit', async () => {
  const stream = request();
  readBody(stream, 10, () => undefined, account());
  for (let index = 0; index < 17 && !stream.destroyed; index++) stream.write('x'.repeat(10));
  await finished(stream).catch(() => undefined);
  expect(stream.destroyed).toBe(true);
});

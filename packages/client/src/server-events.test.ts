import { expect, test } from 'vitest';
import { serverEvents } from './server-events.ts';

/** A body that comes in these pieces. */
function bodyOf(pieces: readonly Uint8Array[], cancelled = () => {}): ReadableStream<Uint8Array> {
  const left = [...pieces];
  return new ReadableStream({
    pull(controller) {
      const piece = left.shift();
      if (piece === undefined) controller.close();
      else controller.enqueue(piece);
    },
    cancel: cancelled,
  });
}

const TEXT =
  ': comment\n\nid: 1-0\nevent: state\ndata: {"a":\ndata: 1}\n\r\ndata:é☃\r\n\r\nid: 2\rdata: x\r\revent: none\n\nid\ndata\n\ndata: cut';
const EVENTS = [
  { type: 'state', data: '{"a":\n1}', id: '1-0' },
  { type: 'message', data: 'é☃', id: '1-0' },
  { type: 'message', data: 'x', id: '2' },
  { type: 'message', data: '', id: '' },
];

test.each([1, 2, 3, 7, 1_000])('events are the same in pieces of %d bytes', async (size) => {
  const bytes = new TextEncoder().encode(TEXT);
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  );
  expect(await all(serverEvents(bodyOf(pieces)))).toEqual(EVENTS);
});

test('leaving the loop cancels the body', async () => {
  let cancelled = 0;
  const body = bodyOf(
    [new TextEncoder().encode('data: 1\n\n'), new Uint8Array(1), new Uint8Array(1)],
    () => cancelled++,
  );
  for await (const { data } of serverEvents(body)) {
    expect(data).toBe('1');
    break;
  }
  expect(cancelled).toBe(1);
});

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

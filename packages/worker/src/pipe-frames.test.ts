import { expect, test } from 'vitest';
import { createPipeReader, type PipeMessage, pipeFrame } from './pipe-frames.ts';

const bufferOf = (...bytes: number[]) => Uint8Array.from(bytes).buffer;
const MESSAGES: readonly PipeMessage[] = [
  { object: undefined, buffers: [bufferOf(1, 2, 3)] },
  { object: [['id', 5n, { a: 1.5 }]], buffers: [bufferOf(4)] },
  { object: { kind: 'stop' }, buffers: [] },
  { object: undefined, buffers: [bufferOf(), bufferOf(5, 6), bufferOf()] },
  { object: { kind: 'outcomes', data: Uint8Array.of(7, 8) }, buffers: [] },
];

test.each([1, 2, 7, 16, 10_000])('messages are read as they were sent, in chunks of %i bytes', (size) => {
  const stream = Buffer.concat(MESSAGES.flatMap((message) => [...pipeFrame(message)]));
  const read: PipeMessage[] = [];
  const reader = createPipeReader(
    (bytes) => new ArrayBuffer(bytes),
    (message) => read.push(message),
  );
  for (let at = 0; at < stream.length; at += size) reader.read(stream.subarray(at, at + size));
  expect(read).toEqual(MESSAGES);
});

test('of a buffer that is larger than needed the beginning goes, and is read into one that may be larger', () => {
  const read: ArrayBuffer[] = [];
  const reader = createPipeReader(
    (bytes) => new ArrayBuffer(bytes + 1),
    ({ buffers }) => read.push(...buffers),
  );
  for (const part of pipeFrame({ object: undefined, buffers: [bufferOf(1, 2, 3, 4), bufferOf(9)] }, 2))
    reader.read(part);
  expect(read).toEqual([bufferOf(1, 2, 0), bufferOf(9, 0)]);
});

test('what is no frame is refused', () => {
  const reader = createPipeReader(
    (bytes) => new ArrayBuffer(bytes),
    () => {},
  );
  expect(() => reader.read(Buffer.from('a line of text\n'))).toThrow('what came through its pipe is no frame');
});

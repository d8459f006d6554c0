import type { BlobRef, CarriedTensor, Message } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { createCollector } from './blob-collector.ts';
import type { MailboxOptions } from './mailbox.ts';
import { forEachTensor, withTensors } from './message-tensors.ts';
import { sampleMessage } from './sample-messages.ts';

const stale = (id: string): Message => ({ kind: 'stale', model: 'm', id, known: null });

/** A message of that kind whose every tensor is the blob. */
function naming(
  kind: 'infer' | 'execute' | 'response',
  id: string,
  bytes = 4,
  place: BlobRef['place'] = 'redis',
): Message {
  const blob: BlobRef = { place, id, bytes };
  return withTensors(sampleMessage(kind), ({ name }) => ({ name, datatype: 'UINT8', shape: [bytes], blob }));
}

const tensorsOf = (message: Message) => {
  const found: CarriedTensor[] = [];
  forEachTensor(message, (tensor) => found.push(tensor));
  return found;
};

/** A collector whose reads end when the test says so. */
function collecting(id = 'gw-1', options?: MailboxOptions) {
  const received: Message[] = [];
  const reads: { readonly id: string; readonly take: boolean; end(data: Uint8Array | undefined): void }[] = [];
  const collect = createCollector(
    id,
    {
      read: ({ id }, take) => new Promise((end) => void reads.push({ id, take, end })),
    },
    (messages) => void received.push(...messages),
    options,
  );
  return { collect, received, reads };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const DATA = Uint8Array.of(1, 2, 3, 4);

test('what names no blobs passes at once, and so does a request on its way to its owner', () => {
  const { collect, received, reads } = collecting();
  const messages = [stale('1'), naming('infer', 'a')];
  expect(collect(messages)).toBeUndefined();
  expect(received).toEqual(messages);
  expect(reads).toEqual([]);
});

test("an answer that an owner only passes on stays as it is: its blobs are its request's sender's to read", () => {
  const { collect, received, reads } = collecting('co-1');
  const messages = [naming('response', 'a')];
  expect(collect(messages)).toBeUndefined();
  expect(received).toEqual(messages);
  expect(reads).toEqual([]);
});

test('a mailbox that carries gets answers as they are, and batches with their data', async () => {
  const { collect, received, reads } = collecting('gw-1', { carries: true });
  const answer = naming('response', 'a');
  expect(collect([answer])).toBeUndefined();
  expect(received).toEqual([answer]);
  const batch = collect([naming('execute', 'b')]);
  await turn();
  expect(new Set(reads.map(({ id }) => id))).toEqual(new Set(['b']));
  for (const { end } of reads) end(DATA);
  await batch;
});

test.each(['execute', 'response'] as const)('what a worker keeps is not looked for (%s)', (kind) => {
  const { collect, received, reads } = collecting();
  const message = naming(kind, 'wk-1-4', 4, 'worker');
  expect(collect([message])).toBeUndefined();
  expect(received).toEqual([message]);
  expect(reads).toEqual([]);
});

test('what comes later waits for what is being fetched', async () => {
  const { collect, received, reads } = collecting();
  const first = collect([stale('1'), naming('response', 'a')]);
  const second = collect([stale('2')]);
  await turn();
  expect(received).toEqual([]);
  for (const { end } of reads) end(DATA);
  await Promise.all([first, second]);
  await turn();
  expect(received.map((message) => ('id' in message ? message.id : message.kind))).toEqual(['1', 'gw-1:12', '2']);
  expect(collect([stale('3')])).toBeUndefined();
  expect(received.at(-1)).toEqual(stale('3'));
});

test.each([
  ['execute', false],
  ['response', true],
] as const)('the blobs of a message of kind %s are read, and taken: %s', async (kind, take) => {
  const { collect, received, reads } = collecting();
  const done = collect([naming(kind, 'a')]);
  await turn();
  expect(new Set(reads.map((read) => read.take))).toEqual(new Set([take]));
  for (const { end } of reads) end(DATA);
  await done;
  await turn();
  for (const tensor of received.flatMap(tensorsOf)) expect(tensor).toMatchObject({ data: DATA });
});

test('one that is gone stays a name', async () => {
  const { collect, received, reads } = collecting();
  const message = naming('execute', 'a');
  const done = collect([message]);
  await turn();
  for (const { end } of reads) end(undefined);
  await done;
  await turn();
  expect(received).toEqual([message]);
});

test('of very much, a part is handed on before the next is fetched', async () => {
  const { collect, received, reads } = collecting();
  const large = 80_000_000;
  const done = collect([naming('response', 'a', large), naming('response', 'b', large)]);
  await turn();
  expect(new Set(reads.map(({ id }) => id))).toEqual(new Set(['a']));
  for (const { end } of reads.splice(0)) end(DATA);
  await turn();
  expect(received).toHaveLength(1);
  expect(new Set(reads.map(({ id }) => id))).toEqual(new Set(['b']));
  for (const { end } of reads) end(DATA);
  await done;
  await turn();
  expect(received).toHaveLength(2);
});

import type { InferMessage, InferRequest } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { batchesOf, type FakeCluster, fakeRequest, serving, settle } from './fake-cluster.ts';
import type { FakeGateway } from './fake-gateway.ts';

const DIRECT = 'max_batch_size: 2 sequence_batching { max_sequence_idle_microseconds: 1000000 }';

const sequences = (options: Parameters<typeof serving>[1] = {}) => serving(DIRECT, options);

/** Sends a step of sequence `correlationId`; its id. A START names its session by itself. */
function send(
  gateway: FakeGateway,
  correlationId: bigint,
  flags: '' | 'start' | 'end' | 'one' = '',
  more: Partial<InferMessage> = {},
  request: Partial<InferRequest> = {},
): string {
  const step = fakeRequest('m', {
    correlationId,
    sequenceStart: flags === 'start' || flags === 'one',
    sequenceEnd: flags === 'end' || flags === 'one',
    ...request,
  });
  return gateway.infer(step, more);
}

/** `session@slot` of each step that the worker holds, batch by batch. */
const slotsOf = ({ executes }: FakeCluster['worker'] extends (...args: never) => Promise<infer W> ? W : never) =>
  executes.map(({ entries }) => entries.map(({ session, slot }) => `${session}@${slot}`));

test('START, steps and END go to one slot, one at a time (R18)', async () => {
  const { worker, gateway } = await sequences();
  const start = send(gateway, 5n, 'start');
  const step = send(gateway, 5n, '', { session: start, prev: 1 });
  const end = send(gateway, 5n, 'end', { session: start, prev: 2 });
  for (const id of [start, step, end]) {
    await settle();
    expect(batchesOf(worker)).toEqual([[id]]);
    expect(slotsOf(worker)).toEqual([[`${start}@0`]]);
    worker.finish();
  }
  await settle();
  expect([start, step, end].map(gateway.outcome)).toEqual(['ok', 'ok', 'ok']);
  // The session is over: what names it is told that there is none.
  const late = send(gateway, 5n, '', { session: start });
  await settle();
  expect(gateway.moved).toEqual([`${late} → null`]);
});

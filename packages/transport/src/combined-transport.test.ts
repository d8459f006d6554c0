import { isBlobTensor, type Message } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { createCombinedTransport } from './combined-transport.ts';
import { createLocalTransport } from './local-transport.ts';
import { mailboxContract } from './mailbox-contract.ts';
import { forEachTensor, withTensors } from './message-tensors.ts';
import { keys, messageSink, ROOMY, useRedisLane } from './redis-transport-fixture.ts';
import { sampleInfer, sampleMessage } from './sample-messages.ts';

const lane = useRedisLane();

mailboxContract('combined', (limits) =>
  createCombinedTransport(createLocalTransport(limits), lane.makeTransport({ limits })),
);

test('a request from another process has its data once it reaches a worker of this one', async () => {
  const here = createCombinedTransport(createLocalTransport(ROOMY), lane.makeTransport({ name: 'test:here' }));
  const remote = lane.makeTransport({ name: 'test:there', blobs: { name: 'bl-there' } });
  const requests = messageSink();
  const batches = messageSink();
  const coordinator = here.open('co-1', requests.receive);
  here.open('wk-1', batches.receive);
  const gateway = remote.open('gw-1', () => {});
  await lane.admin.ready();
  await expect.poll(() => lane.admin.client.exists(keys.mailboxOpen('co-1'))).toBe(1);
  const sent = sampleInfer(100_000);
  gateway.send('co-1', sent);
  await requests.until(() => requests.messages.length > 0);
  const [request] = requests.messages;
  if (request?.kind !== 'infer') throw new Error('another message');
  expect(request.request.inputs.some(isBlobTensor)).toBe(true);
  const sample = sampleMessage('execute');
  const entries = [{ id: request.id, replyTo: 'gw-1', request: request.request, session: null, slot: -1 }];
  coordinator.send('wk-1', { ...sample, entries });
  coordinator.send('wk-1', { ...sample, batch: 9, entries: [] });
  await batches.until(() => batches.messages.length === 2);
  expect(batches.messages.map((message) => message.kind === 'execute' && message.batch)).toEqual([sample.batch, 9]);
  expect(dataOf(batches.messages[0])).toEqual(dataOf(sent));
  await here.close();
});

test.each(['wk-1', 'wk-2'])('what a worker keeps goes by its name to %s, of this process or another', async (to) => {
  const here = createCombinedTransport(createLocalTransport(ROOMY), lane.makeTransport({ name: 'test:here' }));
  const remote = lane.makeTransport({ name: 'test:there' });
  const batches = messageSink();
  const coordinator = here.open('co-1', () => {});
  here.open('wk-1', batches.receive);
  remote.open('wk-2', batches.receive);
  await lane.admin.ready();
  await expect.poll(() => lane.admin.client.exists(keys.mailboxOpen(to))).toBe(1);
  const batch = withTensors(sampleMessage('execute'), ({ name }) => ({
    ...{ name, datatype: 'UINT8', shape: [4] },
    blob: { place: 'worker', id: 'wk-3-7', bytes: 4 },
  }));
  coordinator.send(to, batch);
  await batches.until(() => batches.messages.length === 1);
  expect(batches.messages).toEqual([batch]);
  await here.close();
});

function dataOf(message: Message | undefined): readonly Uint8Array[] {
  const found: Uint8Array[] = [];
  if (message === undefined) return found;
  forEachTensor(message, (tensor) => {
    if (!isBlobTensor(tensor)) found.push(tensor.data);
  });
  return found;
}

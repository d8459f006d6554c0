import { describe, expect, test } from 'vitest';
import { idsOf, ownerOf, startedCluster } from './fake-apart.ts';
import { type FakeWorker, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

type FakeGateway = ReturnType<ReturnType<typeof fakeCluster>['gateway']>;

const SEQUENCES = 'max_batch_size: 4 sequence_batching { max_sequence_idle_microseconds: 60000000 }';
const step = (start: boolean, end = false, correlationId = 5n) =>
  fakeRequest('m', { correlationId, sequenceStart: start, sequenceEnd: end });
const sentTo = ({ executes }: FakeWorker) => executes.map(({ load = 0, entries }) => `${load} ${entries[0]?.id}`);

/** One model of an earlier load with what `begin` gave it, loaded anew beside that. */
async function reloaded(config: string, begin: (gateway: FakeGateway) => void) {
  const cluster = fakeCluster([fakeModel('m', config)], { controlMode: 'explicit', loadModels: ['m'] });
  const worker = await cluster.worker();
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  begin(gateway);
  await settle();
  cluster.files.set('m', fakeModel('m', config, { contentHash: 'hash-2' }));
  await cluster.coordinator.loadModel('m');
  return { ...cluster, worker, gateway, addWorker: cluster.worker };
}

describe('a load that retires', () => {
  test('has its sequences until they end; new ones begin at the load that serves', async () => {
    let first = '';
    const { worker, gateway, coordinator } = await reloaded(SEQUENCES, (of) => {
      first = of.infer(step(true));
    });
    expect(sentTo(worker)).toEqual([`0 ${first}`]);
    worker.finish();
    const other = gateway.infer(step(true, false, 6n));
    const next = gateway.infer(step(false), { session: first });
    await settle();
    expect(sentTo(worker)).toEqual([`1 ${other}`, `0 ${next}`]);
    worker.finish();
    worker.finish();
    const last = gateway.infer(step(false, true), { session: first });
    await settle();
    expect(sentTo(worker)).toEqual([`0 ${last}`]);
    expect(worker.held('m')).toEqual(['1 0 READY', '1 1 READY']);
    worker.finish();
    await settle();
    expect(gateway.outcome(last)).toBe('ok');
    expect(worker.held('m')).toEqual(['1 1 READY']);
    await coordinator.stop();
  });

  test('gives what waits to the load that serves where no worker holds it any more', async () => {
    const requests: string[] = [];
    const { worker, gateway, coordinator, addWorker } = await reloaded('max_batch_size: 1', (of) => {
      for (let count = 0; count < 4; count++) requests.push(of.infer(fakeRequest('m', { shape: [1, 1] })));
    });
    const other = await addWorker('wk-2');
    await settle();
    await worker.leave();
    await settle();
    expect(new Set(sentTo(other).map((sent) => sent.split(' ')[0]))).toEqual(new Set(['1']));
    while (other.executes.length > 0) {
      other.finish();
      await settle();
    }
    expect(requests.map((id) => gateway.outcome(id))).toEqual(requests.map(() => 'ok'));
    await coordinator.stop();
  });

  test('goes on at the next owner, which learns its sequences from the workers', async () => {
    const world = await startedCluster([fakeModel('m', SEQUENCES)], { controlMode: 'explicit', loadModels: ['m'] });
    const gateway = world.gateway();
    const first = gateway.infer(step(true));
    await settle();
    world.worker.finish();
    await settle();
    world.files.set('m', fakeModel('m', SEQUENCES, { contentHash: 'hash-2' }));
    await world.coordinator.loadModel('m');
    expect(world.worker.held('m')).toEqual(['1 0 READY', '1 1 READY']);
    world.worker.slots = [
      {
        ...{ instance: 0, slot: 0, session: first, correlationId: 5n, steps: 1 },
        bind: { epoch: 1, n: 1 },
        marks: [['gw-1', 1]],
      },
    ];
    await world.startAnother('co-2');
    await world.killFirst();
    await world.pass(1_000);
    expect(ownerOf(world)).toBe('co-2');
    expect(world.worker.held('m')).toEqual(['1 0 READY', '1 1 READY']);
    const last = gateway.infer(step(false, true), { session: first });
    await settle();
    expect(sentTo(world.worker)).toEqual([`0 ${last}`]);
    expect(idsOf(world.worker)).toEqual([last]);
    world.worker.slots = [];
    world.worker.finish();
    await settle();
    expect(gateway.outcome(last)).toBe('ok');
    // A copy of it might have come.
    await world.pass(5_000);
    expect(world.worker.held('m')).toEqual(['1 1 READY']);
  });
});

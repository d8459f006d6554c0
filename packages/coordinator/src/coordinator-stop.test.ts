import { describe, expect, test } from 'vitest';
import { ownerOf, startedCluster } from './fake-apart.ts';
import { fakeRequest, settle } from './fake-cluster.ts';

describe('stopping', () => {
  test('with another coordinator there, models go on: records and workers stay, leases go last', async () => {
    const world = await startedCluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const running = gateway.infer(fakeRequest('m'));
    await settle();
    const stopped = world.coordinator.stop();
    await settle();
    const late = gateway.infer(fakeRequest('m'));
    await settle();
    expect([gateway.outcome(late), gateway.stale.map(({ id }) => id)]).toEqual(['none', [late]]);
    expect(ownerOf(world)).toBe('co-1');
    world.worker.finish();
    await stopped;
    expect(gateway.outcome(running)).toBe('ok');
    await world.pass(250);
    expect(ownerOf(world)).toBe('co-2');
    gateway.infer(fakeRequest('m'), { id: late, sends: 2 });
    await settle();
    world.worker.finish();
    await settle();
    expect(gateway.outcome(late)).toBe('ok');
    expect(world.worker.controls.map(({ action }) => action)).toEqual(['load', 'load']);
    expect([...world.states]).toEqual(['READY']);
  });

  test('with a deadline past, what is queued is left to the next owner', async () => {
    const world = await startedCluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    gateway.infer(fakeRequest('m'));
    const queued = gateway.infer(fakeRequest('m'));
    await settle();
    const stopped = world.coordinator.stop(1_000);
    await world.pass(1_000);
    await stopped;
    expect(gateway.outcome(queued)).toBe('none');
    world.worker.finish();
    await settle();
  });

  test.each([
    ['while a gateway waits for the next one', false, 1, ['load']],
    ['but not where that is stopping too', true, 0, ['load', 'unload']],
  ] as const)('alone, it leaves its models %s', async (_rule, draining, records, controls) => {
    const world = await startedCluster();
    await world.directory.register({ id: 'gw-7', role: 'gateway', draining });
    await world.coordinator.stop();
    expect(world.directory.records()).toHaveLength(records);
    expect(world.directory.owner('m')).toBeUndefined();
    expect(world.worker.controls.map(({ action }) => action)).toEqual(controls);
  });

  test('ends though the directory does not answer', async () => {
    const world = await startedCluster();
    world.away.yes = true;
    await world.coordinator.stop();
    world.away.yes = false;
  });
});

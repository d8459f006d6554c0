import { DESIRED_VALUE, decodeDesiredState } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { ownerOf, startedCluster } from './fake-apart.ts';
import { type FakeCluster, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';
import { fakeEnsemble } from './fake-ensemble.ts';

const EXPLICIT = { controlMode: 'explicit', loadModels: [] as string[] } as const;

const desired = ({ directory }: Pick<FakeCluster, 'directory'>) =>
  decodeDesiredState(directory.value(DESIRED_VALUE)?.text)?.models;
const states = ({ directory }: Pick<FakeCluster, 'directory'>, model: string) =>
  directory.record(model)?.versions.map(({ state, reason }) => `${state} ${reason}`.trim());

describe('a change over the network', () => {
  test('is answered at once, and again when it is over; its copies do it once', async () => {
    const world = await startedCluster([fakeModel('m')], EXPLICIT);
    const gateway = world.gateway();
    world.worker.slow = true;
    const id = gateway.change('m', 'load');
    await settle();
    gateway.change('m', 'load', { id });
    await settle();
    expect(gateway.changed.map(({ over }) => over)).toEqual([false, false]);
    world.worker.slow = false;
    await world.pass(2_500);
    expect(gateway.changed.at(-1)).toEqual({
      kind: 'changed',
      model: 'm',
      id,
      over: true,
      error: null,
      contentHash: 'hash-1',
    });
    gateway.change('m', 'load', { id });
    await settle();
    expect(gateway.changed.at(-1)?.over).toBe(true);
    expect(desired(world)).toEqual({ m: {} });
  });

  test('tells why not, and what never was is not wanted', async () => {
    const world = await startedCluster([fakeModel('m')], EXPLICIT);
    const gateway = world.gateway();
    world.files.set('m', new NereidError('INVALID_ARG', 'wrong config'));
    for (const model of ['m', 'missing']) gateway.change(model, 'load');
    await settle();
    expect(gateway.changed.filter(({ over }) => over).map(({ error }) => error?.message)).toEqual([
      'wrong config',
      "failed to load 'missing'",
    ]);
    expect(desired(world)).toEqual({});
  });

  test('a load that fails for its workers stays wanted, so that it is told to whoever asks', async () => {
    const world = await startedCluster([fakeModel('m')], EXPLICIT);
    const gateway = world.gateway();
    world.worker.failures.set('1', 'Internal: broken');
    gateway.change('m', 'load');
    await settle();
    expect(gateway.changed.at(-1)?.error?.message).toContain('Internal: broken');
    expect(desired(world)).toEqual({ m: {} });
  });

  test('an unload is over before its requests are, and takes no new ones', async () => {
    const world = await startedCluster([fakeModel('m')], { ...EXPLICIT, loadModels: ['m'] });
    const gateway = world.gateway();
    const running = gateway.infer(fakeRequest('m'));
    await settle();
    gateway.change('m', 'unload');
    await settle();
    expect([gateway.changed.at(-1)?.over, states(world, 'm')]).toEqual([true, ['UNLOADING']]);
    const late = gateway.infer(fakeRequest('m'));
    await settle();
    expect(gateway.outcome(late)).toContain('has no available versions');
    world.worker.finish();
    await settle();
    expect([gateway.outcome(running), states(world, 'm')]).toEqual(['ok', ['UNAVAILABLE unloaded']]);
  });

  test('an unload of an unknown model is done', async () => {
    const world = await startedCluster([fakeModel('m')], EXPLICIT);
    const gateway = world.gateway();
    gateway.change('nope', 'unload');
    await settle();
    expect(gateway.changed.at(-1)).toMatchObject({ over: true, error: null });
    expect(desired(world)).toEqual({});
  });

  test('is refused with another control mode', async () => {
    const world = await startedCluster();
    const gateway = world.gateway();
    gateway.change('m', 'unload');
    gateway.change('m', 'load');
    await settle();
    const refused = gateway.changed.filter(({ over }) => over).map(({ error }) => error?.code);
    expect(refused).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
  });

  test('of a model of another coordinator goes back, to be sent there', async () => {
    const world = await startedCluster([fakeModel('m')], { ...EXPLICIT, loadModels: ['m'] });
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const id = gateway.change('m', 'unload', {}, 'co-2');
    await settle();
    expect(gateway.stale).toMatchObject([{ id, model: 'm', known: { owner: 'co-1' } }]);
    expect(gateway.changed).toEqual([]);
  });

  test('outlives its coordinator: the next one does it under the same id', async () => {
    const world = await startedCluster([fakeModel('m')], EXPLICIT);
    await world.startAnother('co-2');
    const gateway = world.gateway();
    world.worker.slow = true;
    const id = gateway.change('m', 'load', {}, 'co-1');
    await settle();
    await world.killFirst();
    world.worker.slow = false;
    gateway.change('m', 'load', { id }, 'co-2');
    await world.pass(3_000);
    expect(gateway.changed.at(-1)).toMatchObject({ id, over: true, error: null });
    expect([ownerOf(world), states(world, 'm')]).toEqual(['co-2', ['READY']]);
  });
});

describe('what is wanted', () => {
  test('the flags say it at the start of a cluster only', async () => {
    const world = await startedCluster([fakeModel('m'), fakeModel('n')], { ...EXPLICIT, loadModels: ['m'] });
    const gateway = world.gateway();
    gateway.change('m', 'unload');
    gateway.change('n', 'load');
    await settle();
    await world.startAnother('co-2');
    await world.killFirst();
    await world.pass(1_000);
    expect([states(world, 'm'), states(world, 'n')]).toEqual([['UNAVAILABLE unloaded'], ['READY']]);
    expect([ownerOf(world, 'm'), ownerOf(world, 'n')]).toEqual(['co-2', 'co-2']);
    await world.startAnother('co-3');
    expect(desired(world)).toEqual({ m: { unloaded: true }, n: {} });
  });

  test('a coordinator that uses its repositories otherwise is not taken', async () => {
    const world = await startedCluster([fakeModel('m')], { ...EXPLICIT, repositories: ['/models'] });
    const others = [
      { controlMode: 'none', repositories: ['/models'] },
      { controlMode: 'explicit', repositories: ['/other'] },
    ] as const;
    for (const [index, options] of others.entries()) {
      const coordinator = world.another(`co-${index + 2}`, options);
      await expect(coordinator.start()).rejects.toMatchObject({
        code: 'INVALID_ARG',
        message: /here and .* in the cluster/,
      });
      const stopped = coordinator.stop(0);
      await world.pass(1);
      await stopped;
    }
    expect(world.directory.processes('coordinator').map(({ id }) => id)).toEqual(['co-1']);
  });

  test('an ensemble has its models wanted too, and takes them along', async () => {
    const models = [fakeEnsemble('e', ['A>a>x', 'x>b>B']), fakeModel('a'), fakeModel('b')];
    const world = await startedCluster(models, { ...EXPLICIT, loadModels: ['a'] });
    const gateway = world.gateway();
    gateway.change('e', 'load');
    await settle();
    expect(desired(world)).toEqual({ a: {}, b: { implicit: true }, e: {} });
    // One that changes nothing makes it nobody's wish.
    gateway.change('b', 'load');
    await settle();
    expect(desired(world)?.b).toEqual({ implicit: true });
    gateway.change('e', 'unload', { dependents: true });
    await settle();
    expect(['e', 'a', 'b'].map((model) => states(world, model))).toEqual([
      ['UNAVAILABLE unloaded'],
      ['READY'],
      ['UNAVAILABLE unloaded'],
    ]);
  });

  test('each coordinator follows what another has changed', async () => {
    const models = [
      fakeEnsemble('e', ['A>a>B']),
      ...Array.from({ length: 8 }, (_, index) => fakeModel(`m${index}`)),
      fakeModel('a'),
    ];
    const world = await startedCluster(models, EXPLICIT);
    await world.startAnother('co-2');
    const gateway = world.gateway();
    gateway.change('a', 'load', {}, 'co-2');
    await settle();
    gateway.change('e', 'load', {}, 'co-1');
    await settle();
    // As if only the ensemble had wanted it.
    const state = decodeDesiredState(world.directory.value(DESIRED_VALUE)?.text);
    await world.directory.setValue(
      DESIRED_VALUE,
      JSON.stringify({ ...state, models: { ...state?.models, a: { implicit: true } } }),
    );
    await settle();
    gateway.change('e', 'unload', { dependents: true });
    await settle();
    expect([ownerOf(world, 'a'), states(world, 'a')]).toEqual(['co-2', ['UNAVAILABLE unloaded']]);
  });
});

test('in one process a server that stops says so', async () => {
  const cluster = fakeCluster([fakeModel('m')], { ...EXPLICIT, loadModels: ['m'] });
  await cluster.worker();
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  gateway.infer(fakeRequest('m'));
  await settle();
  const stopped = cluster.coordinator.stop(1_000);
  gateway.change('m', 'load');
  await settle();
  expect(gateway.changed.at(-1)?.error?.message).toContain('stopping');
  await cluster.pass(1_000);
  await stopped;
});

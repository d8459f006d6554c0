/**
 * For tests: fake clusters whose coordinators are processes of their own. After each test those of a
 * file that imports this are stopped, and nothing of them may be left.
 */
import { timing } from '@nereid/transport';
import { afterEach, expect } from 'vitest';
import type { Coordinator, CoordinatorOptions, CoordinatorParts } from './coordinator.ts';
import { type FakeCluster, type FakeWorker, fakeCluster, fakeModel, settle } from './fake-cluster.ts';

const started: { readonly cluster: FakeCluster; readonly coordinators: Set<Coordinator> }[] = [];
afterEach(async () => {
  for (const { cluster, coordinators } of started.splice(0)) {
    const stopped = Promise.all([...coordinators].map((coordinator) => coordinator.stop(0)));
    await cluster.pass(1);
    await stopped;
    expect(cluster.clock.liveTimers).toBe(0);
    for (const { counts } of coordinators) expect(counts).toEqual({ queued: 0, running: 0, waits: 0 });
  }
});

/** Coordinators in separate processes, `co-1` started. */
export async function startedCluster(
  models = [fakeModel('m')],
  options: Partial<CoordinatorOptions> = {},
  more: Pick<CoordinatorParts, 'totals'> = {},
) {
  const made = fakeCluster(models, { instanceDepth: 1, ...options }, { timing: timing(), ...more });
  const coordinators = new Set<Coordinator>();
  started.push({ cluster: made, coordinators });
  const states = new Set<string>();
  made.directory.watch(() => {
    const record = made.directory.record('m');
    states.add(record === undefined ? 'none' : record.versions.map(({ state }) => state).join());
  });
  const start = async (coordinator: Coordinator) => {
    coordinators.add(coordinator);
    const over = coordinator.start();
    await settle();
    return over;
  };
  const worker = await made.worker();
  await start(made.coordinator);
  await settle();
  states.clear();
  return {
    ...made,
    worker,
    addWorker: made.worker,
    /** What the record of `m` has said since. */
    states,
    async startAnother(id: string) {
      const coordinator = made.another(id, { instanceDepth: 1, ...options });
      await start(coordinator);
      return coordinator;
    },
    /** Dies with all it knows; its leases run out at once. */
    async killFirst() {
      coordinators.delete(made.coordinator);
      await made.kill('co-1');
    },
  };
}

export const idsOf = (worker: FakeWorker) => worker.executes.flatMap(({ entries }) => entries.map(({ id }) => id));

export function modelRecordOf(model: string, { directory }: Pick<FakeCluster, 'directory'>) {
  const record = directory.record(model);
  if (record === undefined) throw new Error(`no record of ${model}`);
  return record;
}

export const ownerOf = ({ directory }: Pick<FakeCluster, 'directory'>, model = 'm') => directory.owner(model)?.owner;

/** A cluster whose first coordinator is not started yet. */
export function unstartedCluster(models = [fakeModel('m')], options: Parameters<typeof fakeCluster>[1] = {}) {
  const made = fakeCluster(models, options, { timing: timing() });
  const coordinators = new Set([made.coordinator]);
  started.push({ cluster: made, coordinators });
  const start = async () => {
    const over = made.coordinator.start();
    await settle();
    return over;
  };
  return { made, start, coordinators };
}

export const versionOf = (made: Pick<FakeCluster, 'directory'>) => made.directory.record('m')?.versions[0];

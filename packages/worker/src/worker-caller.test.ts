import { LIMITS, type ModelRecord } from '@nereid/config';
import { createLog, systemClock } from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport, type Directory } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createWorkerCaller } from './worker-caller.ts';
import { request } from './worker-harness.ts';

/** The caller of a worker in a directory that may refuse, or forget. */
function world() {
  const local = createLocalDirectory<ModelRecord>();
  let refuses = false;
  const lapsed = new Set<string>();
  const directory: Directory<ModelRecord> = {
    ...local,
    async register(process) {
      if (refuses) throw new Error('no Redis');
      await local.register(process);
    },
    registered: (id) => !lapsed.has(id) && local.registered(id),
  };
  const calls = createWorkerCaller({
    clock: systemClock(),
    log: createLog({ level: 'silent' }),
    transport: createLocalTransport({ messages_max: 100, bytes_max: 2 ** 20 }),
    directory,
    limits: LIMITS,
  });
  return {
    calls,
    ids: () => local.processes('caller').map(({ id }) => id),
    refuse: (does: boolean) => {
      refuses = does;
    },
    async lapse(id: string) {
      lapsed.add(id);
      await local.leave(id);
    },
  };
}

test('is there from the first call to the end', async () => {
  const { calls, ids } = world();
  expect(ids()).toEqual([]);
  const outcome = await calls.caller().infer(request([], { modelName: 'nobody' }));
  expect(outcome).toMatchObject({ ok: false, error: { code: 'NOT_FOUND' } });
  calls.caller();
  expect(ids()).toHaveLength(1);
  await calls.close();
  expect(ids()).toEqual([]);
});

test('one that lapsed is followed by another', async () => {
  const { calls, ids, lapse } = world();
  const first = calls.caller();
  const [id = ''] = ids();
  await Promise.resolve();
  await lapse(id);
  expect(calls.caller()).not.toBe(first);
  expect(ids()).not.toContain(id);
  await calls.close();
});

test('one that could not be registered is followed by another', async () => {
  const { calls, refuse } = world();
  refuse(true);
  const first = calls.caller();
  await new Promise(setImmediate);
  refuse(false);
  expect(calls.caller()).not.toBe(first);
  await calls.close();
});

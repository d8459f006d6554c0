import { LIMITS, type ModelRecord, parseModelConfig } from '@nereid/config';
import { type InferMessage, type InferRequest, REQUEST_DEFAULTS } from '@nereid/protocol';
import { createLog, virtualClock } from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport, type Directory } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createLazyCaller, openCaller } from './index.ts';

const CONFIG = `
name: "m" backend: "javascript"
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]`;
const DATA = Uint8Array.of(7, 0, 0, 0);
const REQUEST: InferRequest = {
  ...REQUEST_DEFAULTS,
  modelName: 'm',
  inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [1], data: DATA }],
};

/** A caller and an owner of model `m`, whose requests gather in `asked`. */
async function opened(change: (directory: Directory<ModelRecord>) => Directory<ModelRecord> = (same) => same) {
  const clock = virtualClock();
  const transport = createLocalTransport({ messages_max: 100, bytes_max: 1e6 });
  const directory = createLocalDirectory<ModelRecord>();
  const asked: InferMessage[] = [];
  const owner = transport.open('co-1', (messages) => {
    for (const message of messages) if (message.kind === 'infer') asked.push(message);
  });
  const config = parseModelConfig(CONFIG, 'config.pbtxt');
  const versions = [{ version: '1', state: 'READY', reason: '' }] as const;
  await directory.acquire('m', 'co-1');
  await directory.publish('m', { name: 'm', config, labels: {}, versions, contentHash: '' });
  const log = createLog({ level: 'silent' });
  const caller = openCaller({ id: 'ca-1', clock, log, transport, directory: change(directory), limits: LIMITS });
  return { caller, owner, directory, asked, clock };
}

test('a call is answered at the caller’s own mailbox', async () => {
  const { caller, owner, directory, asked } = await opened();
  await caller.registered;
  expect(directory.processes('caller')).toEqual([{ id: 'ca-1', role: 'caller', draining: false }]);
  const answer = caller.infer(REQUEST);
  await expect.poll(() => asked.length).toBe(1);
  expect(asked[0]).toMatchObject({ replyTo: 'ca-1', id: 'ca-1:1' });
  expect(caller.waiting).toBe(1);
  const response = { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs: [] };
  const outcome = { ok: true, response } as const;
  owner.send('ca-1', { kind: 'response', model: 'm', id: 'ca-1:1', outcome, execution: 'x', chunk: 0, last: true });
  expect(await answer).toEqual(outcome);
  await caller.close();
});

test('its end fails what waits and takes it out of the directory', async () => {
  const { caller, directory } = await opened();
  await caller.registered;
  const answer = caller.infer(REQUEST);
  await caller.close();
  expect(await answer).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
  expect(caller.waiting).toBe(0);
  expect(directory.processes('caller')).toEqual([]);
});

/** A directory that does not answer so many times. */
const away = (times: number) => (directory: Directory<ModelRecord>) => {
  let left = times;
  const register: typeof directory.register = (process) =>
    left-- > 0 ? Promise.reject(new Error('no Redis')) : directory.register(process);
  return { ...directory, register };
};

test('the directory is told again until it has heard; calls are made meanwhile', async () => {
  const { caller, directory, asked, clock } = await opened(away(2));
  void caller.infer(REQUEST);
  await expect.poll(() => asked.length).toBe(1);
  expect(directory.processes('caller')).toEqual([]);
  for (let beat = 0; beat < 2; beat++) {
    await expect.poll(() => clock.liveTimers).toBe(1);
    clock.advanceUs(500_000);
  }
  await caller.registered;
  expect(directory.processes('caller')).toHaveLength(1);
  await caller.close();
});

test('one that ends before it was heard of leaves no timer', async () => {
  const { caller, clock } = await opened(away(Number.POSITIVE_INFINITY));
  await expect.poll(() => clock.liveTimers).toBe(1);
  await caller.close();
  expect(clock.liveTimers).toBe(0);
});

test('a lazy one is opened by its first call only', async () => {
  const { caller } = await opened();
  let made = 0;
  const lazy = createLazyCaller(() => {
    made++;
    return caller;
  });
  await lazy.close();
  expect([made, lazy.opened]).toEqual([0, undefined]);
  expect([lazy.caller(), lazy.caller(), made]).toEqual([caller, caller, 1]);
  await lazy.close();
  expect(await caller.infer(REQUEST)).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
});

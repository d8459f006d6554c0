/** A caller that carries: what becomes of the tensors that its answers name. */
import { LIMITS, type ModelRecord, parseModelConfig } from '@nereid/config';
import {
  type BlobRef,
  type BlobTensor,
  type CarriedRequest,
  type CarriedTensor,
  type InferMessage,
  isBlobTensor,
  type KeptMessage,
  type Message,
  type PutTensor,
  REQUEST_DEFAULTS,
} from '@nereid/protocol';
import { createLog, virtualClock } from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport, type LargeTensors, timing } from '@nereid/transport';
import { afterEach, expect, test } from 'vitest';
import { openCaller } from './index.ts';

const LIFETIME_MS = 12_000;
const CONFIG = (name: string, more = '') => `
name: "${name}" backend: "javascript" ${more}
input [ { name: "INPUT" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_UINT8 dims: [ -1 ] } ]`;

const named = (id: string, place: BlobRef['place'] = 'worker', name = 'OUTPUT'): BlobTensor => ({
  ...{ name, datatype: 'UINT8', shape: [20_000] },
  blob: { place, id, bytes: 20_000 },
});
const WHOLE: CarriedTensor = { name: 'INPUT', datatype: 'UINT8', shape: [1], data: Uint8Array.of(1) };
const request = (inputs: readonly CarriedTensor[], modelName = 'm'): CarriedRequest => ({
  ...REQUEST_DEFAULTS,
  modelName,
  inputs,
  inner: { keep: ['OUTPUT'] },
});

async function opened() {
  const clock = virtualClock();
  const blobs = { kept: new Set<string>(), discarded: [] as string[] };
  const idsOf = (tensors: readonly CarriedTensor[]) =>
    tensors.flatMap((each) => (isBlobTensor(each) ? [each.blob.id] : []));
  const largeTensors: LargeTensors = {
    lifetimeMs: LIFETIME_MS,
    release() {},
    rewrite() {},
    keep: (tensors) => {
      for (const id of idsOf(tensors)) blobs.kept.add(id);
    },
    letGo: (tensors) => {
      for (const id of idsOf(tensors)) blobs.kept.delete(id);
    },
    discard: (tensors) => {
      for (const id of idsOf(tensors)) blobs.kept.delete(id);
      blobs.discarded.push(...idsOf(tensors));
    },
    put: async () => undefined,
  };
  const transport = { ...createLocalTransport({ messages_max: 10_000, bytes_max: 1e9 }), largeTensors };
  const directory = createLocalDirectory<ModelRecord>();
  const asked: InferMessage[] = [];
  const told: KeptMessage[] = [];
  const owner = transport.open('co-1', (messages) => {
    for (const message of messages) if (message.kind === 'infer') asked.push(message);
  });
  const openWorker = (id: string) =>
    transport.open(id, (messages: readonly Message[]) => {
      for (const message of messages) if (message.kind === 'kept') told.push(message);
    });
  const worker = openWorker('wk-1');
  await directory.register({ id: 'wk-1', role: 'worker', draining: false });
  const versions = [{ version: '1', state: 'READY', reason: '' }] as const;
  for (const [name, more] of [
    ['m', ''],
    ['s', 'model_transaction_policy { decoupled: true }'],
    ['two', 'input { name: "OTHER" data_type: TYPE_UINT8 dims: [ -1 ] }'],
  ] as const) {
    const config = parseModelConfig(CONFIG(name, more), 'config.pbtxt');
    await directory.acquire(name, 'co-1');
    await directory.publish(name, { name, config, labels: {}, versions, contentHash: '' });
  }
  const caller = openCaller({
    ...{ id: 'ca-1', clock, transport, directory, limits: LIMITS, timing: timing(), carries: true },
    log: createLog({ level: 'silent' }),
  });
  await caller.registered;
  const answer = (outputs: readonly CarriedTensor[], id = asked.at(-1)?.id ?? '', chunk = 0, last = true) => {
    const response = { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs };
    owner.send('ca-1', {
      ...{ kind: 'response', model: 'm', id, outcome: { ok: true, response }, execution: 'wk-1/1', chunk, last },
    });
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return {
    ...{ caller, owner, worker, directory, clock, blobs, asked, told, answer, turn, openWorker },
    /** A request of which a worker has said that it did not find its inputs. */
    async missing(inputs: readonly CarriedTensor[]) {
      const outcome = caller.infer(request(inputs));
      await turn();
      owner.send('ca-1', { kind: 'missing', model: 'm', id: asked.at(-1)?.id ?? '' });
      await turn();
      return outcome;
    },
    lose: () => owner.send('ca-1', { kind: 'missing', model: 'm', id: asked.at(-1)?.id ?? '' }),
    put: (tensors: readonly PutTensor[]) =>
      worker.send('ca-1', { kind: 'put', model: 'm', id: told.at(-1)?.id ?? '', tensors }),
    /** Holds those, as an answer gave them. */
    async hold(...outputs: readonly CarriedTensor[]) {
      const outcome = caller.infer(request([WHOLE]));
      await turn();
      answer(outputs);
      return outcome;
    },
  };
}

type Opened = Awaited<ReturnType<typeof opened>>;
let last: Opened;
const begin = async () => {
  last = await opened();
  return last;
};
afterEach(async () => {
  await last.caller.close();
  expect(last.clock.liveTimers).toBe(0);
});

const input = named('wk-1-1', 'worker', 'INPUT');
const inputOf = ({ asked }: Opened) => asked.at(-1)?.request.inputs[0];
const actions = ({ told }: Opened) => told.map(({ action, ids }) => [action, ...ids]);

test('what an answer names is handed out as it came, lasts, and goes when it is released', async () => {
  const made = await begin();
  const { caller, blobs, clock, turn } = made;
  const outputs = [named('wk-1-1'), named('f1', 'file'), named('r1', 'redis')];
  expect(await made.hold(...outputs)).toMatchObject({ ok: true, response: { outputs } });
  expect(caller.tensors.count).toBe(3);
  expect([...blobs.kept]).toEqual(['f1', 'r1']);
  clock.advanceUs((LIFETIME_MS * 1000) / 3);
  await turn();
  expect(actions(made)).toEqual([['renew', 'wk-1-1']]);
  caller.tensors.release(outputs.slice(0, 2));
  caller.tensors.handOver(outputs.slice(2));
  await turn();
  expect(actions(made).at(-1)).toEqual(['drop', 'wk-1-1']);
  expect(blobs).toEqual({ kept: new Set(), discarded: ['f1'] });
  expect(caller.tensors.count).toBe(0);
});

test('what is released in one turn goes to each worker in one message', async () => {
  const made = await begin();
  const outputs = ['wk-1-1', 'wk-2-1', 'wk-1-2'].map((id) => named(id));
  await made.hold(...outputs);
  made.openWorker('wk-2');
  for (const output of outputs) made.caller.tensors.release([output]);
  await made.turn();
  expect(actions(made)).toEqual([
    ['drop', 'wk-1-1', 'wk-1-2'],
    ['drop', 'wk-2-1'],
  ]);
});

test.each([
  [
    'of a request that is over',
    async ({ answer }: Opened) => answer([named('wk-1-5'), named('f5', 'file')], 'ca-1:99'),
  ],
  [
    'that its reader leaves unread',
    async ({ caller, answer, asked, turn }: Opened) => {
      const stream = caller.inferStream(request([WHOLE], 's'));
      await turn();
      answer([named('wk-1-5'), named('f5', 'file')], asked.at(-1)?.id, 0, false);
      await turn();
      await stream.return?.();
    },
  ],
  [
    'of a second execution of a stream',
    async ({ caller, owner, asked, turn }: Opened) => {
      const stream = caller.inferStream(request([WHOLE], 's'));
      await turn();
      const id = asked.at(-1)?.id ?? '';
      const of = (execution: string, outputs: readonly CarriedTensor[]) => {
        const response = { modelName: 's', modelVersion: '1', id: '', parameters: {}, outputs };
        const outcome = { ok: true, response } as const;
        owner.send('ca-1', { kind: 'response', model: 's', id, outcome, execution, chunk: 0, last: false });
      };
      of('wk-1/1', []);
      of('wk-1/2', [named('wk-1-5'), named('f5', 'file')]);
      await turn();
      await stream.return?.();
    },
  ],
])('an answer %s is nobody’s, and what it names is dropped', async (_which, act) => {
  const made = await begin();
  await act(made);
  await made.turn();
  await made.turn();
  expect(actions(made)).toEqual([['drop', 'wk-1-5']]);
  expect(made.blobs).toEqual({ kept: new Set(), discarded: ['f5'] });
  expect(made.caller.tensors.count).toBe(0);
});

test('a kept input that its worker does not have is put down by its keeper, and sent again under that name', async () => {
  const made = await begin();
  await made.hold(named('wk-1-1'));
  const outcome = made.missing([input]);
  await made.turn();
  await made.turn();
  expect(made.told.at(-1)).toMatchObject({ action: 'put', ids: ['wk-1-1'], model: 'm', replyTo: 'ca-1' });
  const sends = made.asked.length;
  // It waits for the name, whatever else comes.
  made.lose();
  made.clock.advanceUs(900_000);
  await made.turn();
  expect(made.asked.length).toBe(sends);
  made.put([{ id: 'wk-1-1', blob: { place: 'file', id: 'f1', bytes: 20_000 } }]);
  await made.turn();
  await made.turn();
  expect(inputOf(made)).toEqual({ ...input, blob: { place: 'file', id: 'f1', bytes: 20_000 } });
  expect([...made.blobs.kept]).toEqual(['f1']);
  made.answer([]);
  expect(await outcome).toMatchObject({ ok: true });
  made.caller.tensors.release([input]);
  await made.turn();
  expect(made.blobs).toEqual({ kept: new Set(), discarded: ['f1'] });
});

test('one whose blob was not found either is put where everybody looks, and others have that name at once', async () => {
  const made = await begin();
  await made.hold(named('wk-1-1'));
  void made.missing([input]);
  await made.turn();
  await made.turn();
  made.put([{ id: 'wk-1-1', blob: { place: 'file', id: 'f1', bytes: 20_000 } }]);
  await made.turn();
  await made.turn();
  made.lose();
  await made.turn();
  expect(made.told.at(-1)).toMatchObject({ action: 'rewrite', ids: ['wk-1-1'] });
  made.put([{ id: 'wk-1-1', blob: { place: 'redis', id: 'r1', bytes: 20_000 } }]);
  await made.turn();
  await made.turn();
  expect(inputOf(made)).toMatchObject({ blob: { place: 'redis', id: 'r1' } });
  const questions = made.told.length;
  void made.missing([input]);
  for (let turns = 0; turns < 4; turns++) await made.turn();
  expect(inputOf(made)).toMatchObject({ blob: { place: 'redis', id: 'r1' } });
  expect(made.told.length).toBe(questions);
  made.caller.tensors.release([input]);
  expect(made.blobs.discarded).toEqual(['f1', 'r1']);
});

test.each([
  ['does not have it any more', async (made: Opened) => made.put([{ id: 'wk-1-1', blob: null }])],
  ['has another mailbox by now', async (made: Opened) => made.worker.close()],
  [
    'is not registered any more',
    async (made: Opened) => {
      await made.directory.leave('wk-1');
      made.clock.advanceUs(1_000_000);
    },
  ],
  [
    'does not answer',
    async (made: Opened) => {
      for (let second = 0; second < 6; second++) {
        made.clock.advanceUs(1_000_000);
        await made.turn();
      }
      expect(made.told.filter(({ action }) => action === 'put').length).toBeGreaterThan(2);
    },
  ],
])('a request for a tensor whose keeper %s fails with a reason of its own', async (_why, act) => {
  const made = await begin();
  await made.hold(named('wk-1-1'));
  // Its mailbox is closed before it is asked.
  const early = _why.includes('mailbox');
  if (early) await act(made);
  const outcome = made.missing([input]);
  await made.turn();
  await made.turn();
  if (!early) await act(made);
  expect(await outcome).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE', reason: 'tensor_lost' } });
});

test('a request whose inputs are lost again and again fails', async () => {
  const made = await begin();
  await made.hold(named('wk-1-1'));
  const outcome = made.missing([input]);
  for (let loss = 0; loss < 6; loss++) {
    for (let turns = 0; turns < 3; turns++) await made.turn();
    made.put([{ id: 'wk-1-1', blob: { place: 'redis', id: `r${loss}`, bytes: 20_000 } }]);
    for (let turns = 0; turns < 3; turns++) await made.turn();
    made.lose();
  }
  expect(await outcome).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
});

test('the end of the caller drops what it still has', async () => {
  const made = await begin();
  await made.hold(named('wk-1-1'), named('f1', 'file'));
  await made.caller.close();
  await made.turn();
  expect(actions(made)).toEqual([['drop', 'wk-1-1']]);
  expect(made.blobs.discarded).toEqual(['f1']);
});

test('where one of somebody else is missing too, it is told so once those of workers have been put down', async () => {
  const { caller, hold, asked, told, lose, put, turn } = await begin();
  await hold(named('wk-1-1'));
  let missing = 0;
  const options = { missing: () => ++missing > 0 };
  const outcome = caller.infer(request([input, named('f1', 'file', 'OTHER')], 'two'), options);
  await turn();
  lose();
  await turn();
  expect([told.at(-1)?.action, missing]).toEqual(['put', 0]);
  put([{ id: 'wk-1-1', blob: { place: 'redis', id: 'p1', bytes: 20_000 } }]);
  await turn();
  const sent = asked.length;
  lose();
  await turn();
  expect([told.length, missing, asked.length]).toEqual([1, 1, sent]);
  await caller.close();
  expect(await outcome).toMatchObject({ ok: false });
});

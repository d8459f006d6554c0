/** Outputs that a worker keeps for the next step, as its messages tell them. */
import type {
  BlobRef,
  BlobTensor,
  CarriedOutcome,
  CarriedTensor,
  InferRequest,
  KeptAction,
  Tensor,
} from '@nereid/protocol';
import type { LargeTensors } from '@nereid/transport';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createHarness, executedOf, type Harness, int32, int32Values, request } from './worker-harness.ts';

/** More than goes into a frame of results. */
const LARGE = 20_000;
const LIFETIME_MS = 60_000;
/** Y is X plus one. */
const PLUS_ONE = `
  export const execute = (requests) => requests.map(({ inputs }) => {
    const { data, shape } = inputs.get('X');
    return { outputs: { Y: { datatype: 'INT32', shape, data: data.map((value) => value + 1) } } };
  });`;
const STREAM = `
  export const execute = (requests) => requests.map(async function* ({ inputs }) {
    const { data, shape } = inputs.get('X');
    for (const more of [1, 2]) {
      yield { outputs: { Y: { datatype: 'INT32', shape, data: data.map((value) => value + more) } } };
    }
  });`;
const KEPT = { inner: { keep: ['Y'] } };

/** What was put down, and where. */
let put: { readonly tensor: Tensor; readonly to: string; readonly anew: boolean }[] = [];
const largeTensors: LargeTensors = {
  lifetimeMs: LIFETIME_MS,
  release() {},
  rewrite() {},
  keep() {},
  letGo() {},
  discard() {},
  async put(tensor, to, _message, anew): Promise<BlobRef> {
    put.push({ tensor, to, anew });
    return { place: anew ? 'redis' : 'file', id: `b-${put.length}`, bytes: tensor.data.byteLength };
  },
};

let harness: Harness;
beforeAll(async () => {
  harness = await createHarness({}, largeTensors);
  await harness.javascript('m', PLUS_ONE, 'max_batch_size: 0');
  await harness.javascript('b', PLUS_ONE, 'max_batch_size: 4');
  await harness.javascript('stream', STREAM, 'model_transaction_policy { decoupled: true }');
  for (const model of ['m', 'b', 'stream']) await harness.load(model);
});
beforeEach(() => {
  put = [];
  harness.received.length = 0;
});
afterEach(async () => {
  tell(
    'drop',
    Array.from({ length: 30 }, (_, at) => `wk-test-${at}`),
  );
  await expect.poll(() => harness.worker.keptBytes).toBe(0);
});
afterAll(async () => {
  expect(await harness.close()).toMatchObject({ batches: 0, requests: 0, threads: 0, timers: 0 });
});

const tell = (action: KeptAction, ids: readonly string[], id = 'q1') =>
  harness.owner.send('wk-test', { kind: 'kept', model: 'm', id, action, ids, replyTo: 'co-test' });

const values = (count: number, value: number) => new Array<number>(count).fill(value);
const x = (count: number, value: number, more: Partial<InferRequest> = {}) =>
  request([int32('X', [count], values(count, value))], more);

function outputOf(outcome: CarriedOutcome | undefined): CarriedTensor | undefined {
  return outcome?.ok === true ? outcome.response.outputs[0] : undefined;
}

function nameOf(outcome: CarriedOutcome | undefined): BlobTensor {
  const output = outputOf(outcome);
  if (output === undefined || !('blob' in output)) throw new Error('no name of a kept tensor');
  return output;
}

/** A request whose input is a name: the owner gives it to the worker as it came. */
function onward(kept: BlobTensor, more: Partial<InferRequest> = {}): InferRequest {
  return { ...request([], more), inputs: [{ ...kept, name: 'X' } as unknown as Tensor] };
}

describe('an output that only other calls need', () => {
  it('stays where it was made, and is an input there without its bytes in a message', async () => {
    const first = await harness.execute('m', [x(LARGE, 1, KEPT)]);
    const kept = nameOf(first.outcomes[0]);
    expect(kept).toEqual({
      name: 'Y',
      datatype: 'INT32',
      shape: [LARGE],
      blob: { place: 'worker', id: expect.stringMatching(/^wk-test-\d+$/), bytes: 4 * LARGE },
    });
    expect(harness.worker.keptBytes).toBe(4 * LARGE);
    const second = await harness.execute('m', [onward(kept)]);
    expect(int32Values(outputOf(second.outcomes[0]) as Tensor)).toEqual(values(LARGE, 3));
    expect(put).toEqual([]);
  });

  it.each([
    ['is small', x(10, 1, KEPT)],
    ['is not named', x(LARGE, 1, { inner: { keep: ['Z'] } })],
    ['is of a request from a door', x(LARGE, 1)],
  ])('goes with its data where it %s', async (_why, asked) => {
    const { outcomes } = await harness.execute('m', [asked]);
    expect(outputOf(outcomes[0])).toHaveProperty('data');
    expect(harness.worker.keptBytes).toBe(0);
  });

  it('is kept chunk by chunk of a stream', async () => {
    await harness.execute('stream', [x(LARGE, 1, KEPT)]);
    const chunks = harness.received.flatMap((message) =>
      message.kind === 'response' ? [outputOf(message.outcome)] : [],
    );
    expect(chunks.map((chunk) => chunk && 'blob' in chunk && chunk.blob.place)).toEqual([
      'worker',
      'worker',
      undefined,
    ]);
  });
});

describe('a request for a tensor', () => {
  it.each([
    ['another worker keeps', (kept: BlobTensor) => ({ ...kept, blob: { ...kept.blob, id: 'wk-other-1' } })],
    ['has another size', (kept: BlobTensor) => ({ ...kept, blob: { ...kept.blob, bytes: 8 } })],
  ])('that %s does not run, and its owner is told', async (_which, other) => {
    const { outcomes } = await harness.execute('m', [x(LARGE, 1, KEPT)]);
    const done = harness.next('done');
    harness.start('m', [onward(other(nameOf(outcomes[0])))]).over.catch(() => {});
    expect(executedOf(await done)).toEqual([false, 'blob']);
  });

  it('runs beside others of its batch that have their data', async () => {
    const row = (value: number, more = {}) => request([int32('X', [1, LARGE], values(LARGE, value))], more);
    const { outcomes } = await harness.execute('b', [row(1, KEPT), row(5, KEPT)]);
    const names = outcomes.map(nameOf);
    // One buffer for both.
    expect(harness.worker.keptBytes).toBe(8 * LARGE);
    const [kept] = names;
    if (kept === undefined) throw new Error('nothing kept');
    const next = await harness.execute('b', [onward(kept), row(8)]);
    expect(next.outcomes.map((outcome) => int32Values(outputOf(outcome) as Tensor)[0])).toEqual([3, 9]);
  });
});

describe('who has the name', () => {
  it('drops it, and it is gone', async () => {
    const { outcomes } = await harness.execute('m', [x(LARGE, 1, KEPT)]);
    tell('drop', [nameOf(outcomes[0]).blob.id]);
    const done = harness.next('done');
    harness.start('m', [onward(nameOf(outcomes[0]))]).over.catch(() => {});
    expect(executedOf(await done)).toEqual([false, 'blob']);
    expect(harness.worker.keptBytes).toBe(0);
  });

  it('gets it put down for others, once, and where everybody looks if that is asked; what is not there is null', async () => {
    const { outcomes } = await harness.execute('m', [x(LARGE, 1, KEPT)]);
    const { id, bytes } = nameOf(outcomes[0]).blob;
    for (const action of ['put', 'put', 'rewrite'] as const) {
      const answer = harness.next('put');
      tell(action, [id, 'wk-test-99'], action);
      const place = action === 'put' ? 'file' : 'redis';
      expect((await answer).tensors).toEqual([
        { id, blob: { place, id: action === 'put' ? 'b-1' : 'b-2', bytes } },
        { id: 'wk-test-99', blob: null },
      ]);
    }
    expect(put.map(({ to, anew }) => [to, anew])).toEqual([
      ['co-test', false],
      ['co-test', true],
    ]);
    expect(int32Values(put[0]?.tensor)).toEqual(values(LARGE, 2));
  });
});

it('what its caller never gets is not kept', async () => {
  const done = harness.next('done');
  await harness.gateway.close();
  harness.start('m', [x(LARGE, 1, KEPT)]);
  await done;
  await expect.poll(() => harness.worker.keptBytes).toBe(0);
});

it('nothing is kept where messages are passed by reference', async () => {
  const local = await createHarness();
  await local.javascript('m', PLUS_ONE, 'max_batch_size: 0');
  await local.load('m');
  const { outcomes } = await local.execute('m', [x(LARGE, 1, KEPT)]);
  expect(outputOf(outcomes[0])).toHaveProperty('data');
  expect(await local.close()).toMatchObject({ batches: 0, requests: 0, threads: 0, timers: 0 });
});

/** Streams from a real thread, as the worker's messages tell them. */
import type { Message, ResponseMessage } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import {
  eachWithHarness,
  executedOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

const STREAM = 'max_batch_size: 8 model_transaction_policy { decoupled: true }';
/** Answers 0 up to the request's value; 9 goes on until it is cancelled, 8 throws after its first. */
const COUNTING = `
  async function* count({ inputs, signal }) {
    const end = inputs.get('X').data[0];
    for (let value = 0; value < end; value++) {
      if (end === 8 && value === 1) throw new Error('no more');
      yield { outputs: { Y: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(value) } } };
    }
    if (end === 9) await new Promise((go) => signal.addEventListener('abort', go));
  }
  export const execute = (requests) => requests.map(count);`;
const FOR_EVER = 9;

let harness: Harness;
eachWithHarness(async (made) => {
  harness = made;
  await made.javascript('m', COUNTING, STREAM);
  await made.load('m');
});

const x = (value: number) => request([int32('X', [1, 1], [value])]);

const isResponse = (message: Message): message is ResponseMessage => message.kind === 'response';

/** Of one request: number and value of each chunk, and how the last one ended. */
function chunksOf(id: string | undefined): unknown[] {
  return harness.received.filter(isResponse).flatMap((message) => {
    if (message.id !== id) return [];
    const { outcome, chunk, last } = message;
    const what = outcome.ok ? int32Values(responseOf(outcome).outputs[0]) : [outcome.error.message];
    return [[chunk, ...what, ...(last ? ['last'] : [])]];
  });
}

describe('a batch of a decoupled model', () => {
  it('numbers the chunks of each request from 0 under one execution, and is done when all have ended', async () => {
    const { ids, over } = harness.start('m', [x(2), x(0), x(3)]);
    const { done } = await over;
    expect(executedOf(done)).toEqual([true, 'ok', 'ok', 'ok']);
    expect(ids.map(chunksOf)).toEqual([
      [
        [0, 0],
        [1, 1],
        [2, 'last'],
      ],
      [[0, 'last']],
      [
        [0, 0],
        [1, 1],
        [2, 2],
        [3, 'last'],
      ],
    ]);
    expect(new Set(harness.received.filter(isResponse).map(({ execution }) => execution)).size).toBe(1);
    expect(harness.received.at(-1)).toBe(done);
  });

  it('ends the stream that throws with its error, and no other', async () => {
    const { ids, over } = harness.start('m', [x(8), x(1)]);
    expect(executedOf((await over).done)).toEqual([true, 'error', 'ok']);
    expect(ids.map(chunksOf)).toEqual([
      [
        [0, 0],
        [1, 'no more', 'last'],
      ],
      [
        [0, 0],
        [1, 'last'],
      ],
    ]);
  });

  it('is told of with its executions while it runs, and of its requests one may have ended', async () => {
    const short = harness.next('response', ({ id, last }) => id === 'gw-test:2' && last);
    const { ids, over } = harness.start('m', [x(FOR_EVER), x(1)]);
    const { execution } = await short;
    await harness.cancel('m', []);
    const described = harness.received.findLast((message) => message.kind === 'described');
    expect(described).toMatchObject({ streams: ids.map((id) => ({ id, execution })) });
    await harness.cancel('m', ids.slice(0, 1));
    expect(executedOf((await over).done)).toEqual([true, 'cancelled', 'ok']);
    expect(chunksOf(ids[1])).toEqual([
      [0, 0],
      [1, 'last'],
    ]);
  });

  it('tells the times of answers by their position, and of what came in place of one', async () => {
    const { ids, over } = harness.start('m', [x(2), x(8), x(FOR_EVER)]);
    await harness.next('response', ({ id, chunk }) => id === ids[2] && chunk === 8);
    await harness.cancel('m', ids.slice(2));
    const { responses } = (await over).done;
    expect(responses?.answers.map(({ count }) => count)).toEqual([3, 2, 1, 1, 1, 1, 1, 1, 1]);
    expect(responses?.others.map(({ index, how }) => `${index} ${how}`).sort()).toEqual([
      '1 fail',
      '2 empty',
      '9 cancel',
    ]);
    for (const { inferNs, outputNs } of responses?.answers ?? []) {
      expect(inferNs).toBeGreaterThan(0);
      expect(outputNs).toBeGreaterThan(0);
    }
  });

  it('of one request tells them too, and one of a model that is not decoupled none', async () => {
    expect((await harness.execute('m', [x(1)])).done.responses).toMatchObject({
      answers: [{ count: 1 }],
      others: [{ index: 1, how: 'empty' }],
    });
    await harness.javascript(
      'whole',
      COUNTING.replace('map(count)', 'map(({ inputs }) => ({ outputs: { Y: inputs.get("X") } }))'),
      'max_batch_size: 8',
    );
    await harness.load('whole');
    expect((await harness.execute('whole', [x(1)])).done).not.toHaveProperty('responses');
  });

  it('ends a request whose gateway is gone', async () => {
    const done = harness.next('done');
    await harness.gateway.close();
    harness.start('m', [x(FOR_EVER)]);
    expect(executedOf(await done)).toEqual([true, 'cancelled']);
  });

  it('ends its streams with an error where its thread ends', async () => {
    const begun = harness.next('response', ({ chunk }) => chunk === 8);
    const { ids, over } = harness.start('m', [x(FOR_EVER)]);
    await begun;
    await harness.threads[0]?.terminate();
    expect(executedOf((await over).done)).toEqual([true, 'error']);
    expect(chunksOf(ids[0]).at(-1)).toEqual([9, expect.stringContaining('ended'), 'last']);
  });
});

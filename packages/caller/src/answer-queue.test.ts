import { type CarriedTensor, isBlobTensor, type Outcome, type Tensor } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { createAnswerQueue, type StreamedAnswer } from './answer-queue.ts';
import { createBytesInFlight } from './bytes-in-flight.ts';

const int32 = (name: string, value: number): Tensor => ({
  name,
  datatype: 'INT32',
  shape: [1],
  data: new Uint8Array(Int32Array.of(value).buffer),
});

const answer = (value: number | undefined): Outcome => ({
  ok: true,
  response: {
    modelName: 'stream',
    modelVersion: '1',
    id: '',
    parameters: {},
    outputs: value === undefined ? [] : [int32('OUTPUT', value)],
  },
});

const told = ({ outcome, last }: StreamedAnswer<CarriedTensor>) => {
  const what = outcome.ok
    ? outcome.response.outputs.map((tensor) =>
        isBlobTensor(tensor) ? tensor.blob : Buffer.from(tensor.data).readInt32LE(0),
      )
    : (outcome.error.reason ?? outcome.error.code);
  return last ? ['last', what] : what;
};

describe('the queue of unread answers', () => {
  const LIMITS = { stream_unread_chunks_max: 10, stream_unread_bytes_max: 100 };

  test('hands one answer to each reader that waits, and ends them all', async () => {
    const queue = createAnswerQueue(LIMITS, () => {});
    const waits = [queue.next(), queue.next(), queue.next()];
    queue.push(answer(1));
    queue.end(answer(undefined));
    queue.end(answer(9));
    const steps = await Promise.all(waits);
    expect(steps.map(({ done, value }) => (done === true ? 'done' : told(value)))).toEqual([[1], ['last', []], 'done']);
  });

  test('tells once that its reader has left, but not after the end', async () => {
    let left = 0;
    const early = createAnswerQueue(LIMITS, () => left++);
    await early.return?.();
    await early.return?.();
    expect(left).toBe(1);
    expect(await early.next()).toEqual({ done: true, value: undefined });
    const late = createAnswerQueue(LIMITS, () => left++);
    late.end(answer(1));
    await late.return?.();
    expect(left).toBe(1);
  });

  test('counts what is unread with all that the gateway holds, until it is read or left', async () => {
    const inFlight = createBytesInFlight(1_000);
    const queue = createAnswerQueue(LIMITS, () => {}, inFlight);
    for (const value of [1, 2, 3]) queue.push(answer(value));
    expect(inFlight.held).toBe(12);
    await queue.next();
    expect(inFlight.held).toBe(8);
    queue.end(answer(undefined));
    await queue.return?.();
    expect(inFlight.held).toBe(0);
  });

  test('takes a mebibyte, not its own bound, while the gateway holds all that it may', () => {
    const roomy = { stream_unread_chunks_max: 10, stream_unread_bytes_max: 1e9 };
    const inFlight = createBytesInFlight(3_000_000);
    const queue = createAnswerQueue(roomy, () => {}, inFlight);
    const large = { modelName: 'm', modelVersion: '1', id: '', parameters: {} };
    const data = new Uint8Array(1_048_576);
    const outcome: Outcome = {
      ok: true,
      response: { ...large, outputs: [{ name: 'O', datatype: 'UINT8', shape: [data.byteLength], data }] },
    };
    expect([queue.push(outcome), queue.push(outcome)]).toEqual([true, true]);
    inFlight.add(1_000_000);
    expect(queue.push(outcome)).toBe(false);
    inFlight.release(1_000_000);
    expect(queue.push(outcome)).toBe(true);
    expect(createAnswerQueue(roomy, () => {}, inFlight).push(outcome)).toBe(true);
  });
});

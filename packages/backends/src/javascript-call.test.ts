import { getEventListeners } from 'node:events';
import { bytesOf, type InferRequest, type Outcome, type Tensor } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { contextInfer } from './javascript-call.ts';
import type { ModelRequest } from './javascript-model.ts';
import type { CallAnswer } from './model-calls.ts';

const X = { datatype: 'INT32', shape: [2], data: Int32Array.of(1, 2) } as const;
const Y: Tensor = { name: 'Y', datatype: 'INT32', shape: [1], data: bytesOf(Int32Array.of(3)) };

const answered = (outputs: readonly Tensor[], last = true, decoupled = false): CallAnswer => ({
  outcome: { ok: true, response: { modelName: 'm', modelVersion: '2', id: '', parameters: { n: 5n }, outputs } },
  last,
  decoupled,
});
const failed = (last = true, decoupled = false): CallAnswer => {
  const outcome: Outcome = { ok: false, error: { code: 'NOT_FOUND', message: 'not here', reason: 'why' } };
  return { outcome, last, decoupled };
};

/** `context.infer` of a model whose calls are answered so. */
function called(...answers: readonly CallAnswer[]) {
  const left = [...answers];
  const sent: InferRequest[] = [];
  let cancels = 0;
  const infer = contextInfer(
    {
      open(request) {
        sent.push(request);
        const next = () => {
          const answer = left.shift();
          return answer === undefined ? new Promise<CallAnswer>(() => {}) : Promise.resolve(answer);
        };
        return { next, cancel: () => void cancels++ };
      },
    },
    () => undefined,
  );
  return { infer, sent, left, cancels: () => cancels };
}

async function valuesOf(answers: AsyncIterable<{ readonly outputs: Readonly<Record<string, { data: unknown }>> }>) {
  const values: unknown[] = [];
  try {
    for await (const { outputs } of answers) values.push(outputs.Y?.data);
  } catch (thrown) {
    values.push((thrown as { code?: unknown }).code);
  }
  return values;
}

const THREE = Int32Array.of(3);

describe('what is asked', () => {
  test.each([
    ['a record', { X }],
    ['a Map', new Map([['X', X]])],
    ['a list', [{ name: 'X', ...X }]],
  ])('inputs may be %s', async (_form, inputs) => {
    const { infer, sent } = called(answered([Y]));
    await infer('m', { inputs });
    expect(sent[0]?.inputs).toEqual([{ name: 'X', datatype: 'INT32', shape: [2], data: bytesOf(X.data) }]);
  });

  test('all that a request has goes along, whole numbers among its parameters as integers', async () => {
    const { infer, sent } = called(answered([Y]));
    const sequence = { id: 7, start: true, end: false, step: 0 };
    const asked = { inputs: { X }, outputs: ['Y'], id: 'i', sequence, priority: 2, timeoutUs: 5n };
    await infer('m', { ...asked, parameters: { n: 1, x: 0.5, s: 'a' } }, { version: '3' });
    expect(sent[0]).toMatchObject({
      modelName: 'm',
      modelVersion: '3',
      id: 'i',
      requestedOutputs: ['Y'],
      correlationId: 7n,
      sequenceStart: true,
      sequenceEnd: false,
      sequenceStep: 0,
      priority: 2n,
      timeoutUs: 5n,
      parameters: { n: 1n, x: 0.5, s: 'a' },
    });
  });

  test.each([
    ['no input', undefined, {}, 'inputs must be'],
    ['no inputs', {}, {}, 'inputs must be'],
    ['a name that is none', { inputs: new Map([[1, X]]) }, {}, 'inputs[0].name must be a string'],
    [
      'a name twice',
      {
        inputs: [
          { name: 'X', ...X },
          { name: 'X', ...X },
        ],
      },
      {},
      "inputs[1].name 'X' is the name",
    ],
    ['no tensor', { inputs: { X: 5 } }, {}, 'inputs.X must be an object'],
    ['data that do not fit', { inputs: { X: { ...X, shape: [3] } } }, {}, "tensor 'X'"],
    ['a number as version', { inputs: { X } }, { version: 1 }, 'version must be a string'],
    ['a signal that is none', { inputs: { X } }, { signal: 1 }, 'signal must be an AbortSignal'],
    ['a request of nobody', { inputs: { X } }, { request: { id: 'a' } as ModelRequest }, 'request must be a request'],
    ['a text as request', { inputs: { X } }, { request: 'a' }, 'request must be a request'],
  ])('%s is refused unsent', async (_what, input, options, text) => {
    const { infer, sent } = called();
    const thrown = await infer('m', input as never, options as never).catch((error: unknown) => error);
    expect(thrown).toMatchObject({ code: 'INVALID_ARG', message: expect.stringContaining(text) });
    expect(sent).toEqual([]);
  });
});

describe('what comes back', () => {
  test('awaited: the one answer, in the form of a response', async () => {
    const { infer } = called(answered([Y]));
    const call = infer('m', { inputs: { X } });
    const answer = { modelName: 'm', modelVersion: '2', parameters: { n: 5 } };
    const outputs = { Y: { datatype: 'INT32', shape: [1], data: THREE } };
    expect(await call).toEqual({ ...answer, outputs });
    expect(await call).toEqual({ ...answer, outputs });
  });

  test('awaited: an error, as one', async () => {
    const thrown = await called(failed())
      .infer('m', { inputs: { X } })
      .catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(Error);
    expect(thrown).toMatchObject({ code: 'NOT_FOUND', message: "in a call of model 'm', not here", reason: 'why' });
  });

  test('awaited: of a decoupled model, none: it says how to read them, and leaves the call', async () => {
    const { infer, cancels } = called(answered([Y], false, true));
    await expect(infer('m', { inputs: { X } })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('for await'),
    });
    expect(cancels()).toBe(1);
  });

  test.each([
    [
      'all, and an end that comes alone is none',
      [answered([Y], false), answered([Y], false), answered([])],
      [THREE, THREE],
      0,
    ],
    ['of a model with one answer, that one', [answered([Y])], [THREE], 0],
    ['up to an error, which leaves the call', [answered([Y], false), failed(false)], [THREE, 'NOT_FOUND'], 1],
    ['up to an error that is the last', [answered([Y], false), failed()], [THREE, 'NOT_FOUND'], 0],
  ])('iterated: %s', async (_rule, answers, values, cancels) => {
    const call = called(...answers);
    expect(await valuesOf(call.infer('m', { inputs: { X } }))).toEqual(values);
    expect(call.cancels()).toBe(cancels);
  });

  test('iterated: who leaves early cancels the call', async () => {
    const { infer, cancels } = called(answered([Y], false), answered([Y], false));
    for await (const answer of infer('m', { inputs: { X } })) if (answer.outputs.Y !== undefined) break;
    expect(cancels()).toBe(1);
  });

  test('a call gives its answers once', async () => {
    const awaited = called(answered([Y])).infer('m', { inputs: { X } });
    await awaited;
    expect(await valuesOf(awaited)).toEqual(['INVALID_ARG']);
    const iterated = called(answered([Y])).infer('m', { inputs: { X } });
    expect(await valuesOf(iterated)).toEqual([THREE]);
    await expect(iterated).rejects.toMatchObject({ code: 'INVALID_ARG' });
  });
});

describe('a signal', () => {
  test('that is aborted leaves nothing to send', async () => {
    const { infer, sent } = called();
    await expect(infer('m', { inputs: { X } }, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    expect(sent).toEqual([]);
  });

  test('that outlives a call keeps nothing of it once the model has left it', async () => {
    const { signal } = new AbortController();
    const { infer } = called(answered([Y], false, true));
    for await (const _ of infer('m', { inputs: { X } }, { signal })) break;
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('cancels the call until it is over', async () => {
    const controller = new AbortController();
    const { infer, cancels } = called(answered([Y]));
    const open = called();
    const over = infer('m', { inputs: { X } }, { signal: controller.signal });
    open.infer('m', { inputs: { X } }, { signal: controller.signal });
    await over;
    controller.abort();
    expect([cancels(), open.cancels()]).toEqual([0, 1]);
  });
});

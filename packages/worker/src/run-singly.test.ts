import { describe, expect, it } from 'vitest';
import {
  eachWithHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

let harness: Harness;
eachWithHarness((made) => {
  harness = made;
});

const row = (value: number) => request([int32('X', [1, 1], [value])]);
const rows = (...values: number[]) => request([int32('X', [values.length, 1], values)]);
const answers = (outcomes: readonly Parameters<typeof responseOf>[0][]) =>
  outcomes.map((outcome) =>
    outcome?.ok === true ? int32Values(responseOf(outcome).outputs[0]) : errorOf(outcome).message,
  );
/** Throws for a batch with a negative value in it. One buffer serves all its answers, with how often it was called last. */
const model = (answer: string) => `let calls = 0;
  const buffer = new Int32Array(64);
  export function execute(requests) {
    calls++;
    const all = requests.map(({ inputs }) => inputs.get('X'));
    if (all.some(({ data }) => data[0] < 0)) throw new Error('negative, call ' + calls);
    return all.map(({ data, shape }, i) => {
      const own = buffer.subarray(i * 8, i * 8 + data.length);
      own.set(data);
      own[own.length - 1] += 100 * calls;
      ${answer}
    });
  }`;
const WHOLE = 'return { outputs: { Y: { datatype: "INT32", shape, data: own } } };';
const STREAM = `const copy = Int32Array.from(own);
  return (async function* () {
    yield { outputs: { Y: { datatype: 'INT32', shape, data: copy } } };
    yield { outputs: { Y: { datatype: 'INT32', shape, data: copy } } };
  })();`;
const BATCHING = 'max_batch_size: 8';

describe('a batch whose execution throws', () => {
  it('is executed again request by request, and only the guilty fail', async () => {
    await harness.javascript('m', model(WHOLE), BATCHING);
    await harness.load('m');
    const { outcomes, done } = await harness.execute('m', [row(1), row(-2), rows(3, 4)]);
    expect(answers(outcomes)).toEqual([[201], 'negative, call 3', [3, 404]]);
    expect(executedOf(done)).toEqual([true, 'ok', 'error', 'ok']);
    expect((await harness.execute('m', [row(5)])).outcomes.map((one) => one.ok)).toEqual([true]);
  });

  it('of one request is not executed again', async () => {
    await harness.javascript('m', model(WHOLE), BATCHING);
    await harness.load('m');
    expect(answers((await harness.execute('m', [row(-1)])).outcomes)).toEqual(['negative, call 1']);
  });

  it('is not executed again where the model answers Errors', async () => {
    const source = model(WHOLE).replace(
      "throw new Error('negative, call ' + calls)",
      "return all.map(({ data }) => data[0] < 0 ? new Error('this one, call ' + calls) : { outputs: { Y: { datatype: 'INT32', shape: [1, 1], data } } })",
    );
    await harness.javascript('m', source, BATCHING);
    await harness.load('m');
    expect(answers((await harness.execute('m', [row(1), row(-2)])).outcomes)).toEqual([[1], 'this one, call 1']);
  });

  it('is executed again where the model gives too few answers', async () => {
    const source = `export const execute = (requests) => [{ outputs: { Y: requests[0].inputs.get('X') } }];`;
    await harness.javascript('m', source, BATCHING);
    await harness.load('m');
    expect(answers((await harness.execute('m', [row(1), row(2)])).outcomes)).toEqual([[1], [2]]);
  });

  it('leaves out what is cancelled by then', async () => {
    const source = `export function execute(requests) {
      const { signal } = requests[1] ?? {};
      if (signal?.aborted) throw new Error('all');
      if (signal) return new Promise((_, no) => signal.addEventListener('abort', () => no(new Error('all'))));
      return [{ outputs: { Y: requests[0].inputs.get('X') } }];
    }`;
    await harness.javascript('m', source, BATCHING);
    await harness.load('m');
    const running = harness.start('m', [row(1), row(2), row(3)]);
    await harness.cancel('m', running.ids.slice(1, 2));
    const { outcomes, done } = await running.over;
    expect(executedOf(done)).toEqual([true, 'ok', 'cancelled', 'ok']);
    expect(answers(outcomes)).toEqual([[1], 'Request cancelled', [3]]);
  });

  it('of a decoupled model likewise, each stream to its end', async () => {
    await harness.javascript('m', model(STREAM), `${BATCHING} model_transaction_policy { decoupled: true }`);
    await harness.load('m');
    const done = harness.next('done');
    const { ids } = harness.start('m', [row(1), row(-2), row(3)]);
    expect(await done).toMatchObject({
      executed: true,
      entries: [{ result: 'ok' }, { result: 'error' }, { result: 'ok' }],
      responses: {
        answers: [{ count: 2 }, { count: 2 }],
        others: [
          { index: 2, how: 'empty' },
          { index: 0, how: 'fail' },
          { index: 2, how: 'empty' },
        ],
      },
    });
    const told = harness.received.flatMap((message) => {
      if (message.kind !== 'response') return [];
      const { id, outcome, chunk, last } = message;
      const answer = outcome.ok ? int32Values(responseOf(outcome).outputs[0]) : errorOf(outcome).message;
      return [[ids.indexOf(id), chunk, answer, last]];
    });
    expect(told).toEqual([
      [0, 0, [201], false],
      [0, 1, [201], false],
      [0, 2, [], true],
      [2, 0, [403], false],
      [2, 1, [403], false],
      [2, 2, [], true],
      [1, 0, 'negative, call 3', true],
    ]);
  });
});

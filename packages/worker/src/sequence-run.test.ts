import { encodeBytesElements, type Tensor, tensorFromValues, tensorValues } from '@nereid/protocol';
import { seededRandom } from '@nereid/runtime';
import { afterEach, describe, expect, it } from 'vitest';
import { type FixtureStep, javascriptSequences, onnxSequences, type SequenceModel } from './fixture-sequences.ts';
import type { RunOutcome } from './instance-messages.ts';
import { int32, int64 } from './worker-harness.ts';

const models: SequenceModel[] = [];
afterEach(async () => {
  for (const model of models.splice(0)) await model.close();
});
async function open(opening: Promise<SequenceModel>): Promise<SequenceModel> {
  const opened = await opening;
  models.push(opened);
  return opened;
}

const START = { start: true };
const END = { end: true };
type Flags = Pick<FixtureStep, 'start' | 'end'>;
const add = (id: bigint | string, slot: number, value: number, flags: Flags = {}): FixtureStep => ({
  id,
  slot,
  inputs: [int32('INPUT', [1, 1], [value])],
  ...flags,
});
const fp32 = (name: string, value: number): Tensor => tensorFromValues(name, 'FP32', [1, 1], [value]);

/** Values of each output, or the error's text. */
function told(outcome: RunOutcome | undefined): unknown {
  if (outcome?.ok !== true) return outcome?.error.message;
  if (outcome.again === true) return 'again';
  return Object.fromEntries(outcome.outputs.map((output) => [output.name, plain(output)]));
}
function plain(tensor: Tensor): unknown[] {
  const isText = (value: unknown) => value instanceof Uint8Array;
  return Array.from(tensorValues(tensor) as Iterable<unknown>, (value) =>
    isText(value) ? Buffer.from(value as Uint8Array).toString() : value,
  );
}
const sums = (outcomes: readonly RunOutcome[]) =>
  outcomes.map((outcome) => (told(outcome) as { OUTPUT?: number[] }).OUTPUT?.[0] ?? told(outcome));

describe.each([
  ['direct', 'sequence_direct'],
  ['oldest', 'sequence_oldest'],
])('an ONNX model with controls and a state, %s', (strategy, name) => {
  it('keeps a sum for each slot, whatever slots a batch has and in whatever order', async () => {
    const { run } = await open(onnxSequences(name, true));
    expect(sums(await run(add(7n, 1, 5, START)))).toEqual([5]);
    expect(sums(await run(add(8n, 3, 1, START), add(7n, 1, 10), add(9n, 0, 2, START)))).toEqual([1, 15, 2]);
    expect(sums(await run(add(9n, 0, 20), add(8n, 3, 30)))).toEqual([22, 31]);
    expect(sums(await run(add(9n, 0, 1), add(7n, 1, 1), add(6n, 2, 1, START), add(8n, 3, 1)))).toEqual([23, 16, 1, 32]);
  });

  it('tells each step its flags and its id', async () => {
    const { run } = await open(onnxSequences(name, true));
    await run(add(7n, 0, 1, START));
    const outcomes = await run(add(2n ** 64n - 1n, 2, 1, { start: true, end: true }), add(7n, 0, 1));
    expect(outcomes.map(told)).toEqual([
      { OUTPUT: [1], FLAGS: [1, 1, 1], SEQUENCE: [2n ** 64n - 1n] },
      { OUTPUT: [2], FLAGS: [0, 0, 1], SEQUENCE: [7n] },
    ]);
    expect((await run(add(7n, 0, 1, END))).map(told)).toEqual([{ OUTPUT: [3], FLAGS: [0, 1, 1], SEQUENCE: [7n] }]);
  });

  it('begins anew with START, in the same slot too', async () => {
    const { run } = await open(onnxSequences(name, true));
    await run(add(7n, 0, 100, START));
    expect(sums(await run(add(7n, 0, 3, START)))).toEqual([3]);
    expect(sums(await run(add(8n, 0, 4, START)))).toEqual([4]);
  });

  it('does not run a step whose sequence its slot does not keep, but those beside it', async () => {
    const { run } = await open(onnxSequences(name, true));
    await run(add(7n, 0, 5, START), add(8n, 1, 6, START));
    const refused = `slot 1 of an instance of model '${name}' does not keep sequence 9`;
    expect(sums(await run(add(9n, 1, 1), add(7n, 0, 1)))).toEqual([refused, 6]);
    await run(add(8n, 1, 1, END));
    expect(sums(await run(add(8n, 1, 1)))).toEqual([refused.replace('9', '8')]);
  });

  it('gives a text id as a number that is the same at each step', async () => {
    const { run } = await open(onnxSequences(name, true));
    const number = async (flags: Flags) =>
      (told((await run(add('seq-a', 0, 1, flags)))[0]) as { SEQUENCE: bigint[] }).SEQUENCE;
    const first = await number(START);
    expect(first).toEqual([575_258_094_842_313_702n]);
    expect(await number({})).toEqual(first);
  });

  it(`has ${strategy === 'direct' ? 'a row for each slot up to the highest' : 'no rows but those of its steps'}`, async () => {
    const { run, model } = await open(onnxSequences(name, true));
    const rows: unknown[] = [];
    const { instance } = model;
    const execute = instance.execute.bind(instance);
    Object.assign(instance, {
      execute(batch: Parameters<typeof execute>[0]) {
        rows.push([batch.joined[0], ...(batch.made ?? [])].map((tensor) => [tensor?.name, tensor && plain(tensor)]));
        return execute(batch);
      },
    });
    await run(add(7n, 0, 5, START));
    await run(add(9n, 3, 8, START), add(7n, 0, 6));
    const direct = [
      ['INPUT', [6, 8, 8, 8]],
      ['START', [0, 0, 0, 1]],
      ['END', [0, 0, 0, 0]],
      ['READY', [1, 0, 0, 1]],
      ['CORRID', [7n, 0n, 0n, 9n]],
      ['STATE_IN', [5, 0, 0, 0]],
    ];
    const oldest = [
      ['INPUT', [8, 6]],
      ['START', [1, 0]],
      ['END', [0, 0]],
      ['READY', [1, 1]],
      ['CORRID', [9n, 7n]],
      ['STATE_IN', [0, 5]],
    ];
    expect(rows[1]).toEqual(strategy === 'direct' ? direct : oldest);
    expect(sums(await run(add(7n, 0, 0), add(9n, 3, 0)))).toEqual([11, 8]);
  });
});

describe('a state', () => {
  const grow = (id: bigint, slot: number, value: number, flags: Flags = {}): FixtureStep => ({
    id,
    slot,
    inputs: [fp32('VALUE', value)],
    ...flags,
  });
  const seen = (outcomes: readonly RunOutcome[]) =>
    outcomes.map((outcome) => (told(outcome) as { SEEN_OUT: number[] }).SEEN_OUT);

  it('begins with what its file has, may grow, and is returned where it is an output too', async () => {
    const { run } = await open(onnxSequences('sequence_grower'));
    expect(seen(await run(grow(1n, 0, 1, START)))).toEqual([[0.5, 0.25, 1]]);
    expect(seen(await run(grow(1n, 0, 2)))).toEqual([[0.5, 0.25, 1, 2]]);
    expect(seen(await run(grow(1n, 0, 3, START)))).toEqual([[0.5, 0.25, 3]]);
  });

  it('of another shape than those beside it is run apart', async () => {
    const { run } = await open(onnxSequences('sequence_grower'));
    await run(grow(1n, 0, 1, START));
    await run(grow(1n, 0, 2), grow(2n, 5, 10, START));
    expect(seen(await run(grow(3n, 6, 20, START), grow(1n, 0, 3), grow(2n, 5, 11)))).toEqual([
      [0.5, 0.25, 20],
      [0.5, 0.25, 1, 2, 3],
      [0.5, 0.25, 10, 11],
    ]);
    expect(seen(await run(grow(1n, 0, 4), grow(2n, 5, 12), grow(3n, 6, 21)))).toEqual([
      [0.5, 0.25, 1, 2, 3, 4],
      [0.5, 0.25, 10, 11, 12],
      [0.5, 0.25, 20, 21],
    ]);
  });

  it('may be texts; text ids, and flags that are bools or floats', async () => {
    const { run } = await open(onnxSequences('sequence_text'));
    const say = (id: bigint | string, slot: number, text: string, flags: Flags = {}): FixtureStep => {
      const data = encodeBytesElements([text]);
      return { id, slot, inputs: [{ name: 'TEXT', datatype: 'BYTES', shape: [1, 1], data }], ...flags };
    };
    expect((await run(say('ünï-1', 1, 'one', START), say(42n, 0, 'un', START))).map(told)).toEqual([
      { LAST: [''], STARTED: [1], ENDED: [-0.5], WHO: ['ünï-1'] },
      { LAST: [''], STARTED: [1], ENDED: [-0.5], WHO: ['42'] },
    ]);
    expect((await run(say('ünï-1', 1, 'a longer text', END))).map(told)).toEqual([
      { LAST: ['one'], STARTED: [0], ENDED: [1.5], WHO: ['ünï-1'] },
    ]);
    expect((await run(say(42n, 0, '', {}))).map(told)).toEqual([
      { LAST: ['un'], STARTED: [0], ENDED: [-0.5], WHO: ['42'] },
    ]);
  });

  it('is left as it was by a run that fails, which is not tried again', async () => {
    const { run, model } = await open(onnxSequences('sequence_lookup'));
    const find = (id: bigint, slot: number, index: number, flags: Flags = {}): FixtureStep => ({
      id,
      slot,
      inputs: [int64('INDEX', [1, 1], [BigInt(index)])],
      ...flags,
    });
    expect(sums(await run(find(1n, 0, 1, START), find(2n, 1, 2, START)))).toEqual([1.5, 2.5]);
    const { instance } = model;
    let runs = 0;
    const execute = instance.execute.bind(instance);
    Object.assign(instance, {
      execute(batch: Parameters<typeof execute>[0]) {
        runs++;
        return execute(batch);
      },
    });
    const failed = await run(find(1n, 0, 0), find(2n, 1, 99));
    expect(failed.map((outcome) => outcome.ok)).toEqual([false, false]);
    expect(runs).toBe(1);
    expect(sums(await run(find(2n, 1, 0), find(1n, 0, 0)))).toEqual([3, 2]);
  });
});

describe.each([
  ['sequence_direct', true],
  ['sequence_oldest', true],
  ['sequence_grower', false],
])('%s', (name, recorded) => {
  it('gives each of many sequences what it gives one alone, whoever shares its batches', async () => {
    const { run } = await open(onnxSequences(name, recorded));
    const { next: random } = seededRandom(27);
    const below = (count: number) => Math.floor(random() * count);
    const alone = new Map<number, number[]>();
    for (let batch = 0; batch < 200; batch++) {
      const slots = [0, 1, 2, 3].filter(() => random() < 0.6).sort(() => random() - 0.5);
      const steps = slots.map((slot): FixtureStep => {
        const value = below(1000);
        const start = !alone.has(slot) || random() < 0.1;
        const before = start ? (recorded ? [] : [0.5, 0.25]) : (alone.get(slot) ?? []);
        const end = random() < 0.1;
        alone.set(slot, [...before, value]);
        const input = recorded ? int32('INPUT', [1, 1], [value]) : fp32('VALUE', value);
        return { id: BigInt(slot + 1), slot, start, end, inputs: [input] };
      });
      if (steps.length === 0) continue;
      const outcomes = await run(...steps);
      const expected = slots.map((slot) => {
        const values = alone.get(slot) ?? [];
        return recorded ? { OUTPUT: [values.reduce((sum, value) => sum + value, 0)] } : { SEEN_OUT: values };
      });
      expect(outcomes.map(told), `batch ${batch}`).toMatchObject(expected);
      for (const { slot, end } of steps) if (end === true) alone.delete(slot);
    }
  });
});

const SUMS = `max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 } output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }`;
const sequenceBatching = (body: string) => `sequence_batching { ${body}
  state { input_name: "BEFORE" output_name: "AFTER" data_type: TYPE_INT32 dims: 1 } }`;
const SUM = `const sum = ({ inputs, state }) => {
  const total = inputs.get('INPUT').data[0] + state.get('BEFORE').data[0];
  const tensor = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(total) };
  return { outputs: { OUTPUT: tensor }, state: { AFTER: tensor } };
};`;

describe('a JavaScript model', () => {
  it('gets its states and gives them back, each request its own', async () => {
    const source = `${SUM} export const execute = (requests) => requests.map((request) =>
      request.inputs.get('INPUT').data[0] < 0 ? new Error('negative') : sum(request));`;
    const { run } = await open(javascriptSequences(source, `${SUMS} ${sequenceBatching('direct { }')}`));
    expect(sums(await run(add(7n, 2, 5, START), add(8n, 0, 1, START)))).toEqual([5, 1]);
    expect(sums(await run(add(7n, 2, -1), add(8n, 0, 2)))).toEqual(['negative', 3]);
    expect(sums(await run(add(7n, 2, 4)))).toEqual([9]);
  });

  it('sees requests that are not ready for slots without a step, and the controls among its inputs', async () => {
    const source = `export const execute = (requests) => requests.map(({ id, correlationId, flags, inputs, state }) => {
      const seen = [id, correlationId, flags, ...[...inputs].map(([name, { datatype, shape, data }]) =>
        [name, datatype, shape.join('x'), data[0] instanceof Uint8Array ? Buffer.from(data[0]).toString() : data[0]])];
      globalThis.seen.push([...seen, state.size]);
      return { outputs: { OUTPUT: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(1) } } };
    });`;
    const controls = `direct { }
      control_input { name: "S" control { kind: CONTROL_SEQUENCE_START bool_false_true: [ false, true ] } }
      control_input { name: "E" control { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0.5, 2 ] } }
      control_input { name: "R" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 3, 4 ] } }
      control_input { name: "C" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT32 } }`;
    const seen: unknown[] = [];
    Object.assign(globalThis, { seen });
    const { run } = await open(javascriptSequences(source, `${SUMS} sequence_batching { ${controls} }`));
    expect(sums(await run(add(2n ** 40n + 2n ** 32n - 5n, 1, 9, { start: true, end: true })))).toEqual([1]);
    const input = ['INPUT', 'INT32', '1x1', 9];
    expect(seen).toEqual([
      [
        '',
        0n,
        0,
        input,
        ['S', 'BOOL', '1x1', 0],
        ['E', 'FP32', '1x1', 0.5],
        ['R', 'INT32', '1x1', 3],
        ['C', 'INT32', '1x1', 0],
        0,
      ],
      [
        'r',
        2n ** 40n + 2n ** 32n - 5n,
        3,
        input,
        ['S', 'BOOL', '1x1', 1],
        ['E', 'FP32', '1x1', 2],
        ['R', 'INT32', '1x1', 4],
        ['C', 'INT32', '1x1', -5],
        0,
      ],
    ]);
  });

  it('is not called again for a batch that it fails, and keeps its states', async () => {
    const source = `${SUM} globalThis.calls = 0; export const execute = (requests) => {
      globalThis.calls++;
      if (requests.some(({ inputs }) => inputs.get('INPUT').data[0] < 0)) throw new Error('no');
      return requests.map(sum);
    };`;
    const { run } = await open(javascriptSequences(source, `${SUMS} ${sequenceBatching('oldest { }')}`));
    await run(add(7n, 0, 5, START), add(8n, 1, 6, START));
    expect(sums(await run(add(7n, 0, 1), add(8n, 1, -1)))).toEqual(['no', 'no']);
    expect((globalThis as { calls?: number }).calls).toBe(2);
    expect(sums(await run(add(7n, 0, 1), add(8n, 1, 1)))).toEqual([6, 7]);
  });

  it('sees states of several shapes at once, and ragged inputs beside rows without a step', async () => {
    const source = `export const execute = (requests) => requests.map(({ inputs, state }) => {
      const given = inputs.get('INPUT'), before = state.get('BEFORE');
      const data = Int32Array.of(...before.data, ...given.data);
      const sizes = Int32Array.of(requests.length, given.data.length, before.data.length);
      const all = { datatype: 'INT32', shape: [1, data.length], data };
      return { outputs: { OUTPUT: { datatype: 'INT32', shape: [1, 3], data: sizes } }, state: { AFTER: all } };
    });`;
    const config = `max_batch_size: 4 output { name: "OUTPUT" data_type: TYPE_INT32 dims: 3 }
      input { name: "INPUT" data_type: TYPE_INT32 dims: -1 allow_ragged_batch: true }
      sequence_batching { state { input_name: "BEFORE" output_name: "AFTER" data_type: TYPE_INT32 dims: -1 } }`;
    const { run } = await open(javascriptSequences(source, config));
    const some = (id: bigint, slot: number, values: readonly number[], flags: Flags = {}): FixtureStep => ({
      id,
      slot,
      inputs: [int32('INPUT', [1, values.length], values)],
      ...flags,
    });
    expect((await run(some(7n, 0, [1, 2], START))).map(told)).toEqual([{ OUTPUT: [1, 2, 1] }]);
    expect((await run(some(8n, 3, [5], START), some(7n, 0, [3, 4, 5]))).map(told)).toEqual([
      { OUTPUT: [4, 1, 1] },
      { OUTPUT: [4, 3, 3] },
    ]);
    expect((await run(some(7n, 0, [9]), some(8n, 3, [6, 7]))).map(told)).toEqual([
      { OUTPUT: [4, 1, 6] },
      { OUTPUT: [4, 2, 2] },
    ]);
  });

  it.each([
    ['UINT64', 2n ** 64n - 1n, 2n ** 64n - 1n],
    ['INT64', 2n ** 64n - 1n, -1n],
    ['UINT32', 2n ** 33n + 7n, 7],
    ['INT32', 2n ** 32n - 1n, -1],
    ['STRING', 12n, '12'],
    ['STRING', '12', '12'],
  ] as const)('that does not batch gets an id as %s %s', async (type, id, expected) => {
    const source = `export const execute = ([{ inputs }]) => {
      const { shape, data: [value] } = inputs.get('C');
      const text = shape.join('x') + ' ' + (value instanceof Uint8Array ? Buffer.from(value) : value);
      return [{ outputs: { OUTPUT: { datatype: 'BYTES', shape: [1], data: [Buffer.from(text)] } } }];
    };`;
    const config = `input { name: "INPUT" data_type: TYPE_INT32 dims: 1 } output { name: "OUTPUT" data_type: TYPE_STRING dims: 1 }
      sequence_batching { control_input { name: "C" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_${type} } } }`;
    const { run } = await open(javascriptSequences(source, config));
    const [outcome] = await run({ id, slot: 0, start: true, inputs: [int32('INPUT', [1], [1])] });
    expect(told(outcome)).toEqual({ OUTPUT: [`1 ${expected}`] });
  });

  it.each([
    ['a name', `{ OTHER: tensor }`, "model 'm': state 'OTHER' is not a valid state name."],
    [
      'a datatype',
      `{ AFTER: { ...tensor, datatype: 'FP32' } }`,
      "model 'm', state 'AFTER': datatype is FP32, the model configuration says INT32",
    ],
    [
      'a shape',
      `{ AFTER: { ...tensor, shape: [1, 2], data: Int32Array.of(1, 2) } }`,
      "state 'AFTER' of model 'm' has shape [1,2], the model configuration says [1,1]",
    ],
    ['no object', `5`, "model 'm' returned a response whose 'state' is number"],
  ])('that gives states of %s that they have not fails that step and leaves them', async (_what, given, message) => {
    const source = `export const execute = (requests) => requests.map(({ inputs, state }) => {
      const value = inputs.get('INPUT').data[0];
      const tensor = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(value + state.get('BEFORE').data[0]) };
      return { outputs: { OUTPUT: tensor }, state: value < 0 ? ${given} : { AFTER: tensor } };
    });`;
    const { run } = await open(javascriptSequences(source, `${SUMS} ${sequenceBatching('oldest { }')}`));
    await run(add(7n, 0, 5, START));
    expect(sums(await run(add(7n, 0, -1)))).toEqual([message]);
    expect(sums(await run(add(7n, 0, 1)))).toEqual([6]);
  });
});

describe('a request that is to run again', () => {
  const LOOP = `export const execute = (requests) => requests.map(({ correlationId, inputs, state }) => {
    const left = inputs.get('INPUT').data[0] - state.get('BEFORE').data[0];
    const tensor = (value) => ({ datatype: 'INT32', shape: [1, 1], data: Int32Array.of(value) });
    const next = { AFTER: tensor(state.get('BEFORE').data[0] + 1) };
    if (left > 1) return { state: next, release: 'reschedule' };
    return { outputs: { OUTPUT: tensor(Number(correlationId)) }, state: next, release: 'all' };
  });`;

  it('goes on with its state, and with an id of its own where it has none', async () => {
    const config = `${SUMS} ${sequenceBatching('iterative_sequence: true oldest { }')}`;
    const { run } = await open(javascriptSequences(LOOP, config));
    expect((await run(add(0n, 0, 2, START), add('', 1, 3, START))).map(told)).toEqual(['again', 'again']);
    expect((await run(add(0n, 0, 2), add('', 1, 3))).map(told)).toEqual([{ OUTPUT: [1] }, 'again']);
    expect((await run(add('', 1, 3), add(0n, 0, 1, START))).map(told)).toEqual([{ OUTPUT: [2] }, { OUTPUT: [3] }]);
  });

  it('of a decoupled model is answered first, and its stream goes on', async () => {
    const source = `export const execute = (requests) => requests.map(async function* ({ inputs, state }) {
      const before = state.get('BEFORE').data[0];
      const tensor = (value) => ({ datatype: 'INT32', shape: [1, 1], data: Int32Array.of(value) });
      yield { outputs: { OUTPUT: tensor(before) } };
      if (before < inputs.get('INPUT').data[0]) yield { state: { AFTER: tensor(before + 1) }, release: 'reschedule' };
    });`;
    const config = `${SUMS} model_transaction_policy { decoupled: true }
      ${sequenceBatching('iterative_sequence: true oldest { }')}`;
    const { run, chunks } = await open(javascriptSequences(source, config));
    expect((await run(add(0n, 0, 1, START))).map(told)).toEqual(['again']);
    expect(chunks.map(({ outcome, last }) => [told(outcome), last])).toEqual([[{ OUTPUT: [0] }, false]]);
    expect((await run(add(0n, 0, 1))).map(told)).toEqual([{}]);
    expect(chunks.map(({ outcome, last }) => [told(outcome), last]).slice(1)).toEqual([
      [{ OUTPUT: [1] }, false],
      [{}, true],
    ]);
  });

  it('of a decoupled model may come with a response that is no stream', async () => {
    const source = `export const execute = (requests) => requests.map(({ inputs, state }) => {
      const before = state.get('BEFORE').data[0];
      const tensor = (value) => ({ datatype: 'INT32', shape: [1, 1], data: Int32Array.of(value) });
      const more = before < inputs.get('INPUT').data[0];
      const outputs = { OUTPUT: tensor(before) };
      return { outputs, state: { AFTER: tensor(before + 1) }, release: more ? 'reschedule' : 'all' };
    });`;
    const config = `${SUMS} model_transaction_policy { decoupled: true }
      ${sequenceBatching('iterative_sequence: true oldest { }')}`;
    const { run, chunks } = await open(javascriptSequences(source, config));
    expect((await run(add(0n, 0, 1, START))).map(told)).toEqual(['again']);
    expect(chunks.map(({ outcome, last }) => [told(outcome), last])).toEqual([[{ OUTPUT: [0] }, false]]);
    expect((await run(add(0n, 0, 1))).map(told)).toEqual([{ OUTPUT: [1] }]);
  });

  it('is refused in Triton’s words where the model is not iterative', async () => {
    const { run } = await open(javascriptSequences(LOOP, `${SUMS} ${sequenceBatching('oldest { }')}`));
    expect((await run(add(7n, 0, 2, START))).map(told)).toEqual([
      'Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag.',
    ]);
  });
});

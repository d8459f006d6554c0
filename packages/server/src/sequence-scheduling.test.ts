/** Which slots sequences have, what waits for them and what is one batch: through a real model in one process. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createServer, type NereidError, type SequenceInput, type Server } from './index.ts';

/** Tells of each step: the sum so far, which instance it is, its row, and how many rows of the batch are steps. */
const MODEL = `
  const sums = new Map();
  let instance = 0;
  export function initialize({ instanceName }) {
    instance = Number(instanceName.split('_').at(-1));
  }
  export async function execute(requests) {
    const read = (request, name) => Number(request.inputs.get(name).data[0]);
    const ready = requests.filter((request) => read(request, 'READY') === 1).length;
    if (requests.some(({ parameters }) => parameters.hold)) await new Promise((resolve) => setTimeout(resolve, 60));
    return requests.map((request, row) => {
      const id = read(request, 'ID');
      const sum = (read(request, 'START') === 1 ? 0 : (sums.get(id) ?? -1000)) + request.inputs.get('IN').data[0];
      if (read(request, 'READY') === 1) sums.set(id, sum);
      return { outputs: { OUT: { datatype: 'INT32', shape: [1, 4], data: Int32Array.of(sum, instance, row, ready) } } };
    });
  }`;

const config = (max_batch_size: number, batching: string, more = '') => `
  backend: "javascript" max_batch_size: ${max_batch_size} ${more}
  input [{ name: "IN", data_type: TYPE_INT32, dims: [ -1 ] }]
  output [{ name: "OUT", data_type: TYPE_INT32, dims: [ 4 ] }]
  sequence_batching { ${batching}
    control_input [
      { name: "START", control [{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }] },
      { name: "READY", control [{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }] },
      { name: "ID", control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }] } ] }`;

const LONG_IDLE = 'max_sequence_idle_microseconds: 60000000';

const MODELS: Readonly<Record<string, string>> = {
  direct: config(4, `${LONG_IDLE} direct { }`),
  spread: config(2, `${LONG_IDLE} direct { }`, 'instance_group { count: 2 kind: KIND_CPU }'),
  one: config(1, `${LONG_IDLE} direct { }`),
  idle: config(1, 'max_sequence_idle_microseconds: 100000 direct { }'),
  both: config(2, `${LONG_IDLE} direct { minimum_slot_utilization: 1 max_queue_delay_microseconds: 60000000 }`),
  late: config(2, `${LONG_IDLE} direct { minimum_slot_utilization: 1 max_queue_delay_microseconds: 20000 }`),
  ordered: config(
    1,
    `${LONG_IDLE} oldest { max_candidate_sequences: 4 preserve_ordering: true }`,
    'instance_group { count: 2 kind: KIND_CPU }',
  ),
};

let repository: string;
let server: Server;

beforeAll(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-sequence-scheduling-'));
  for (const [name, text] of Object.entries(MODELS)) {
    await mkdir(join(repository, name, '1'), { recursive: true });
    await writeFile(join(repository, name, 'config.pbtxt'), text);
    await writeFile(join(repository, name, '1', 'model.mjs'), MODEL);
  }
  server = await createServer({ modelRepositories: [repository], http: { port: 0 } });
});
afterAll(async () => {
  await server.stop();
  await rm(repository, { recursive: true, force: true });
});

interface Step {
  readonly sum: number;
  readonly instance: number;
  readonly row: number;
  readonly ready: number;
}

interface Wishes {
  readonly parameters?: object;
  readonly signal?: AbortSignal;
  /** Elements of the step. */
  readonly width?: number;
}

async function ask(model: string, sequence: SequenceInput, wishes: Wishes = {}): Promise<Step | string> {
  const { parameters = {}, signal, width = 1 } = wishes;
  const inputs = {
    IN: { datatype: 'INT32' as const, shape: [1, width], data: Array.from({ length: width }, () => 1) },
  };
  const input = { model, sequence, parameters: { ...parameters }, inputs };
  try {
    const { outputs } = await server.infer(input, signal === undefined ? {} : { signal });
    const [sum = 0, instance = 0, row = 0, ready = 0] = [...(outputs.OUT?.data ?? [])].map(Number);
    return { sum, instance, row, ready };
  } catch (thrown) {
    const { code, message } = thrown as NereidError;
    return `${code}: ${message}`;
  }
}

/** A step of the model `one` over HTTP, with parameters that have no other name. */
async function post(sequence_id: number, parameters: object) {
  const answer = await fetch(`${server.urls.http}/v2/models/one/infer`, {
    method: 'POST',
    body: JSON.stringify({
      parameters: { sequence_id, ...parameters },
      inputs: [{ name: 'IN', shape: [1, 1], datatype: 'INT32', data: [1] }],
    }),
  });
  return [answer.status, await answer.json()];
}

const start = (id: number) => ({ id, start: true });
const both = (id: number) => ({ id, start: true, end: true });
const end = (id: number) => ({ id, end: true });
const hold = { parameters: { hold: true } };
const NEEDS_START = expect.stringContaining('must specify the START flag');

describe('slots', () => {
  test('sequences spread over instances, and each stays where it began', async () => {
    const places = async (sequences: readonly SequenceInput[]) =>
      (await Promise.all(sequences.map((sequence) => ask('spread', sequence)))) as Step[];
    const begun = [
      await ask('spread', start(1)),
      await ask('spread', start(2)),
      await ask('spread', start(3)),
    ] as Step[];
    expect(begun.map(({ row }) => row)).toEqual([0, 0, 1]);
    expect(begun[0]?.instance).not.toBe(begun[1]?.instance);
    const later = await places([{ id: 1 }, { id: 2 }, { id: 3 }]);
    expect(later.map(({ instance, row }) => [instance, row])).toEqual(
      begun.map(({ instance, row }) => [instance, row]),
    );
    await places([end(1), end(2), end(3)]);
  });

  test('one more than the slots waits with all of its steps until another ends', async () => {
    expect(await ask('one', start(1))).toMatchObject({ sum: 1 });
    const waits = [ask('one', start(2)), ask('one', { id: 2 }), ask('one', end(2))];
    expect(await ask('one', end(1))).toMatchObject({ sum: 2 });
    expect(await Promise.all(waits)).toMatchObject([{ sum: 1 }, { sum: 2 }, { sum: 3 }]);
  });

  test('in the backlog a time-out ends all of a sequence, in a slot none does', async () => {
    await ask('one', start(1));
    const text = 'timeout of the corresponding sequence has been expired';
    const waits = [ask('one', start(2)), ask('one', { id: 2 })];
    expect(await post(2, { timeout: 30_000 })).toEqual([503, { error: text }]);
    expect(await Promise.all(waits)).toEqual([`UNAVAILABLE: ${text}`, `UNAVAILABLE: ${text}`]);
    expect(await ask('one', { id: 2 })).toEqual(NEEDS_START);
    expect(await post(1, { timeout: 1, sequence_end: true })).toMatchObject([
      200,
      { outputs: [{ data: [2, 0, 0, 1] }] },
    ]);
  });

  test('a cancelled step takes the others of its sequence with it, and its place', async () => {
    await ask('one', start(1));
    const leaving = new AbortController();
    const cancelled = [ask('one', start(2)), ask('one', { id: 2 }, { signal: leaving.signal }), ask('one', { id: 2 })];
    const next = ask('one', both(3));
    // Once all are there.
    await ask('one', { id: 1 });
    leaving.abort();
    for (const answer of await Promise.all(cancelled)) expect(answer).toMatch(/^CANCELLED/);
    expect(await ask('one', { id: 2 })).toEqual(NEEDS_START);
    await ask('one', end(1));
    expect(await next).toMatchObject({ sum: 1 });
  });

  test('an idle sequence leaves its slot', async () => {
    await ask('idle', start(1));
    expect(await ask('idle', both(2))).toMatchObject({ sum: 1 });
    expect(await ask('idle', { id: 1 })).toEqual(NEEDS_START);
  });
});

describe('batches', () => {
  test('direct: of what the slots have ready, each in its row', async () => {
    const begun = (await Promise.all([1, 2, 3].map((id) => ask('direct', start(id))))) as Step[];
    expect(begun.map(({ row }) => row)).toEqual([0, 1, 2]);
    const first = ask('direct', { id: 2 }, hold);
    const others = [ask('direct', { id: 1 }), ask('direct', { id: 3 }), ask('direct', { id: 2 }, { width: 2 })];
    expect(await first).toMatchObject({ row: 1, ready: 1 });
    expect(await Promise.all(others)).toMatchObject([
      { row: 0, ready: 2 },
      { row: 2, ready: 2 },
      { row: 1, ready: 1 },
    ]);
    await Promise.all([1, 2, 3].map((id) => ask('direct', end(id))));
  });

  test('direct: wait for the minimum utilization', async () => {
    const answers = await Promise.all([ask('both', both(1)), ask('both', both(2))]);
    expect(answers).toMatchObject([{ ready: 2 }, { ready: 2 }]);
  });

  test('direct: or for the delay', async () => {
    expect(await ask('late', both(1))).toMatchObject({ ready: 1 });
  });

  test('oldest: answers keep the order in which steps were sent', async () => {
    const order: number[] = [];
    const noted = async (id: number, wishes: Wishes = {}) => {
      expect(await ask('ordered', both(id), wishes)).toMatchObject({ sum: 1 });
      order.push(id);
    };
    await Promise.all([noted(1, hold), noted(2), noted(3)]);
    expect(order).toEqual([1, 2, 3]);
  });
});

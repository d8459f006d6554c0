import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { grpcClient } from './grpc-client.ts';
import { eventually } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

/** Gives one token a run, counting down from VALUE to 1: how many it has given is its state. */
const TOKENS = `
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    await setTimeout(5);
    return requests.map(async function* ({ inputs, state }) {
      const [from] = inputs.get('VALUE').data;
      const given = state.get('BEFORE').data[0] + 1;
      const one = (value) => ({ datatype: 'INT32', shape: [1, 1], data: Int32Array.of(value) });
      yield {
        outputs: { VALUE: one(from - given + 1) },
        state: { AFTER: one(given) },
        release: given < from ? 'reschedule' : 'all',
      };
    });
  }`;
/** Runs as often as VALUE says, and answers with how often it ran; of a negative VALUE fails at that run. */
const RUNS = `
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    await setTimeout(5);
    return requests.map(({ inputs, flags, state }) => {
      const [times] = inputs.get('VALUE').data;
      const run = state.get('BEFORE').data[0] + 1;
      const one = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(run) };
      if (run === -times) return new Error(\`failed in run \${run}\`);
      return run === times ? { outputs: { VALUE: one } } : { state: { AFTER: one }, release: 'reschedule' };
    });
  }`;
const CONFIG = `
  sequence_batching {
    iterative_sequence: true
    max_sequence_idle_microseconds: 50000
    oldest { max_candidate_sequences: 8 }
    state [ {
      input_name: "BEFORE", output_name: "AFTER", data_type: TYPE_INT32, dims: [ 1 ]
      initial_state: { name: "zero", data_type: TYPE_INT32, dims: [ 1 ], zero_data: true }
    } ]
  }`;
const BATCHED = { maxBatchSize: 8 };
const FOR_EVER = 1_000_000_000;

let folder: ModelFolder;

beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript('tokens', TOKENS, `model_transaction_policy { decoupled: true } ${CONFIG}`, BATCHED);
  folder.addJavaScript('runs', RUNS, CONFIG, BATCHED);
});
afterAll(() => {
  folder.remove();
});

describe.each(MODES)('in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    for (const { code, output } of await served.stop()) expect(code, output).toBe(0);
  });

  const door = (index: number) => served.gateways[index % served.gateways.length]?.http ?? '';
  const value = (from: number) => oneInput('VALUE', 'INT32', [1, 1], [from]);

  /** Executions of a model by their rows. */
  async function executions(model: string): Promise<readonly { batch_size: number; count: number }[]> {
    const answer = await fetch(`${served.http}/v2/models/${model}/stats`);
    const { model_stats: stats } = JSON.parse(await answer.text());
    return stats[0].batch_stats.map(({ batch_size, compute_infer }: { batch_size: number; compute_infer: object }) => ({
      batch_size,
      ...compute_infer,
    }));
  }

  async function kept(model: string): Promise<readonly { session: string; steps: number }[]> {
    const listed = await fetch(`${served.http}/nereid/v1/sequences?model=${model}`);
    return JSON.parse(await listed.text()).sequences;
  }

  const noneKept = (model: string) => eventually('no sequence is left', async () => (await kept(model)).length === 0);

  /** A stream of tokens as it comes. */
  async function stream(index: number, from: number, signal?: AbortSignal) {
    const response = await fetch(`${door(index)}/v2/models/tokens/generate_stream`, {
      method: 'POST',
      body: JSON.stringify({ VALUE: from }),
      ...(signal === undefined ? {} : { signal }),
    });
    expect(response.status).toBe(200);
    return response;
  }

  const tokensIn = (text: string) =>
    [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => JSON.parse(json).VALUE);
  const down = (from: number) => Array.from({ length: from }, (_, index) => from - index);

  test('runs of several requests share batches and no state; each request gets its one answer', async () => {
    const times = [30, 25, 31, 28, 1, 27];
    const answers = await Promise.all(times.map((count, index) => infer(door(index), 'runs', value(count))));
    expect(answers.map(({ outputs }) => outputs.get('VALUE')?.data)).toEqual(times.map((count) => [count]));
    const batches = await executions('runs');
    // Every run counts once, in whatever batch.
    await eventually('all runs are counted', async () => {
      const rows = (await executions('runs')).reduce((sum, { batch_size, count }) => sum + batch_size * count, 0);
      return rows === times.reduce((sum, count) => sum + count, 0);
    });
    expect(Math.max(...batches.map(({ batch_size }) => batch_size))).toBeGreaterThan(1);
    await noneKept('runs');
  });

  test('the runs of a decoupled model give one stream each', async () => {
    const lengths = [40, 33, 1, 37];
    const texts = await Promise.all(lengths.map(async (from, index) => (await stream(index, from)).text()));
    expect(texts.map(tokensIn)).toEqual(lengths.map(down));
    expect(Math.max(...(await executions('tokens')).map(({ batch_size }) => batch_size))).toBeGreaterThan(1);
    await noneKept('tokens');
  });

  test("a model's error ends the request in any of its runs", async () => {
    const answer = await infer(served.http, 'runs', value(-3));
    expect([answer.status, answer.error]).toEqual([500, 'failed in run 3']);
    await noneKept('runs');
  });

  test('a client that leaves ends its request', async () => {
    const leaving = new AbortController();
    const response = await stream(0, FOR_EVER, leaving.signal);
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toContain(`"VALUE":${FOR_EVER}`);
    expect(await kept('tokens')).toMatchObject([{ session: expect.any(String) }]);
    leaving.abort();
    await noneKept('tokens');
  });

  test('a deadline ends it', async () => {
    const grpc = grpcClient(served.gateways[0]?.grpc ?? '');
    try {
      const inputs = [
        { name: 'VALUE', datatype: 'INT32', shape: [1, 1], contents: { int_contents: [FOR_EVER] } },
      ] as const;
      const { code } = await grpc.infer({ model_name: 'runs', inputs }, { deadlineMs: 300 });
      expect(code).toBe(4);
    } finally {
      grpc.close();
    }
    await noneKept('runs');
  });

  test('evicting it ends it, with the reason', async () => {
    const answer = infer(served.http, 'runs', value(FOR_EVER));
    await eventually('it is there', async () => (await kept('runs')).length === 1);
    const [{ session } = { session: '' }] = await kept('runs');
    const evicted = await fetch(`${door(1)}/nereid/v1/sequences/${session}`, { method: 'DELETE' });
    expect([evicted.status, await evicted.json()]).toMatchObject([200, { model: 'runs', session }]);
    expect(await answer).toMatchObject({ status: 503, error: expect.stringContaining('evicted') });
    await noneKept('runs');
  });
});

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady, modelUnavailable } from './model-states.ts';
import { infer, oneInput } from './requests.ts';

/** Answers with the rows of all batches that this instance ran before. */
const REMEMBERS = `
  const ran = [];
  export function execute(requests) {
    const seen = ran.map(String).join();
    ran.push(requests.map(({ inputs }) => inputs.get('VALUE').data[0]));
    if (requests.length === 1 && requests[0].id !== '') throw new Error('ran ' + seen);
    return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
  }`;
/** Answers with how many requests it was given at once. */
const COUNTS = `
  export const execute = (requests) => requests.map(({ inputs }) => {
    const { datatype, shape, data } = inputs.get('VALUE');
    return { outputs: { VALUE: { datatype, shape, data: data.map(() => requests.length) } } };
  });`;
/** Lets at most so many bytes of inputs together as modelInit reads from the configuration. */
const VOLUME = `
  let limit;
  export function modelInit({ parameters }) { limit = Number(parameters.MAX_BATCH_VOLUME_BYTES.string_value); }
  export const batchInit = () => ({ bytes: 0 });
  export function include({ inputs }, batch) {
    for (const { byteSize } of inputs.values()) batch.bytes += byteSize;
    return batch.bytes <= limit;
  }`;
const DELAYED = 'dynamic_batching { max_queue_delay_microseconds: 60000000 }';
const FAILS = 'export const execute = (requests) => requests.map(() => new Error("too cold"));';
const sample = (source: string, more: string) =>
  `model_warmup { name: "some" ${more} inputs { key: "VALUE" value { data_type: TYPE_INT32 dims: 1 ${source} } } }`;

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;

  beforeAll(async () => {
    folder = createModelFolder();
    const samples =
      sample('input_data_file: "seven"', 'batch_size: 3 count: 2') + sample('zero_data: true', 'batch_size: 1');
    folder.addJavaScript('warm', REMEMBERS, `${samples} dynamic_batching { }`, { maxBatchSize: 8 });
    mkdirSync(join(folder.path, 'warm', 'warmup'));
    writeFileSync(join(folder.path, 'warm', 'warmup', 'seven'), Int32Array.of(7));
    folder.addJavaScript('cold', FAILS, sample('random_data: true', 'batch_size: 1'));
    folder.addJavaScript('fileless', REMEMBERS, sample('input_data_file: "none"', 'batch_size: 1'));
    const limit = 'parameters { key: "MAX_BATCH_VOLUME_BYTES" value { string_value: "16" } }';
    for (const name of ['volume', 'library', 'faulty'])
      folder.addJavaScript(name, COUNTS, `${DELAYED} ${limit}`, { maxBatchSize: 8 });
    writeFileSync(join(folder.path, 'volume', 'strategy.mjs'), VOLUME);
    writeFileSync(join(folder.path, 'library', 'batchstrategy.so'), '');
    writeFileSync(join(folder.path, 'faulty', 'strategy.mjs'), 'export function include() { throw new Error("no"); }');
    served = await deploy(mode, [folder.path], ['--strict-readiness=false', '--exit-on-error=false']);
  });
  afterAll(async () => {
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  test('an instance is ready once it has run its samples, which count nowhere', async () => {
    await modelReady(served.http, 'warm');
    const answer = await fetch(`${served.http}/v2/models/warm/stats`);
    const { model_stats: stats } = JSON.parse(await answer.text());
    expect(stats).toMatchObject([{ inference_count: 0, execution_count: 0, batch_stats: [] }]);
    expect(stats[0].inference_stats.success.count).toBe(0);
    for (const name of ['nv_inference_request_success', 'nv_inference_count', 'nv_inference_exec_count']) {
      expect(await metric(served.metrics, name, { model: 'warm' }), name).toBe(0);
    }
    const body = JSON.parse(oneInput('VALUE', 'INT32', [1, 1], [1]));
    const { error } = await infer(served.http, 'warm', JSON.stringify({ ...body, id: 'asks' }));
    expect(error).toContain('ran 7,7,7,7,7,7,0');
  });

  test.each([
    ['cold', "Invalid argument: failed to run warmup sample 'some': too cold"],
    ['library', "Invalid argument: model 'library' cannot be loaded with its batching strategy: 'batchstrategy.so'"],
    ['fileless', "Invalid argument: warmup sample 'some' of model 'fileless' cannot be run: failed to open text file"],
  ])('a model whose sample or strategy fails is not loaded, which the index says: %s', async (name, reason) => {
    await modelUnavailable(served.http, name, reason);
  });

  /** Asks with so many rows; how many requests were run together. */
  async function together(model: string, rows: number): Promise<unknown> {
    const data = Array.from({ length: rows }, () => 0);
    const answer = await infer(served.http, model, oneInput('VALUE', 'INT32', [rows, 1], data));
    expect(answer.error).toBeUndefined();
    return answer.outputs.get('VALUE')?.data?.[0];
  }

  test('a strategy closes batches: by the bytes of their inputs, long before the delay', async () => {
    await modelReady(served.http, 'volume');
    const three = [together('volume', 2), together('volume', 2), together('volume', 2)];
    // Answered once all are there: the third does not fit.
    await Promise.race(three);
    // More bytes than may go together: it closes what waits, and goes alone.
    expect(await together('volume', 5)).toBe(1);
    expect((await Promise.all(three)).sort()).toEqual([1, 2, 2]);
    const labels = { model: 'volume', reason: 'strategy' };
    await eventually(
      'all are counted',
      async () => (await metric(served.metrics, 'nereid_batch_size_count', labels)) === 3,
    );
  });

  test('one that throws never fails a request: each goes alone', async () => {
    await modelReady(served.http, 'faulty');
    expect(await Promise.all([together('faulty', 1), together('faulty', 1)])).toEqual([1, 1]);
  });
});

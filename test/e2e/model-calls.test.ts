import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { addCallingModels, addForwards, forwarded } from './calling-models.ts';
import { addGated, type GatedModel } from './gated-model.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

describe.each(MODES)('models that call models, in mode %s', (mode) => {
  let folder: ModelFolder;
  let gated: GatedModel;
  let served: Deployment;
  /** Calls of `double` so far. */
  let doubles = 0;

  beforeAll(async () => {
    folder = createModelFolder();
    addCallingModels(folder);
    gated = addGated(folder, 'gated');
    addForwards(folder);
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    gated.open();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const answerOf = async (model: string, values: readonly number[], shape: readonly number[] = [values.length]) => {
    const { outputs, error } = await infer(served.http, model, oneInput('VALUE', 'INT32', shape, values));
    return outputs.get('VALUE')?.data ?? error;
  };
  const count = (model: string, name: string, labels = {}) => metric(served.metrics, name, { model, ...labels });

  test.each(['both', 'both_in_process'])(
    '%s: 200 at a time, each of which calls two models, get their own answers',
    async (model) => {
      const values = Array.from({ length: 200 }, (_, index) => index);
      const answers = await Promise.all(values.map((value) => answerOf(model, [value], [1, 1])));
      expect(answers).toEqual(values.map((value) => [value * 5]));
      doubles += 200;
      await eventually(
        'each is counted',
        async () => (await count('double', 'nv_inference_request_success')) === doubles,
      );
    },
  );

  test('a stream is relayed answer by answer', async () => {
    const response = await fetch(`${served.http}/v2/models/relays/generate_stream`, {
      method: 'POST',
      body: JSON.stringify({ VALUE: [3] }),
    });
    const events = (await response.text()).split('\n').filter((line) => line.startsWith('data: '));
    expect(events.map((line) => JSON.parse(line.slice('data: '.length)).VALUE)).toEqual([0, 1, 2]);
  });

  test('a stream of more answers than pass at a time is read to its end', async () => {
    expect(await answerOf('counts', [500])).toEqual([500]);
  });

  test('calls make a sequence, whose state is kept', async () => {
    expect(await answerOf('series', [10])).toEqual([55]);
    expect(await answerOf('series', [4])).toEqual([10]);
  });

  test('what the called model says goes through, with its status', async () => {
    const { status, error } = await infer(served.http, 'forwards', forwarded('refuses', 1, 1, 'mine'));
    expect([status, error]).toEqual([501, "in a call of model 'refuses', not mine"]);
  });

  test('a model that is not there is an error of the call', async () => {
    const { status, error } = await infer(served.http, 'forwards', forwarded('nobody', 1));
    expect([status, error]).toEqual([
      404,
      "in a call of model 'nobody', Request for unknown model: 'nobody' is not found",
    ]);
  });

  test('a client that leaves cancels what the called model runs', async () => {
    const leaving = new AbortController();
    const asked = fetch(`${served.http}/v2/models/forwards/infer`, {
      method: 'POST',
      body: forwarded('gated', 7),
      signal: leaving.signal,
    }).catch(() => 'left');
    await eventually('the called model runs', async () => gated.begun().length === 1);
    leaving.abort();
    expect(await asked).toBe('left');
    await eventually('both are cancelled', async () => {
      const cancelled = (model: string) => count(model, 'nv_inference_request_failure', { reason: 'CANCELED' });
      return (await cancelled('gated')) === 1 && (await cancelled('forwards')) === 1;
    });
  });
});

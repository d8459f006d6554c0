import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { MODES } from '../deployment.mjs';
import { type PolledServer, servePolled } from './polled-cluster.ts';
import { infer, oneInput } from './requests.ts';

const SEEN_LIMIT_MS = 20_000;
const AMBIGUOUS =
  "There are 2 identifiers of model 'm' in global map, model namespace must be provided to resolve ambiguity.";
const VALUE = 'name: "VALUE" data_type: TYPE_INT32 dims: [ 1 ]';

describe.each(MODES)('in mode %s', (mode) => {
  let root = '';
  let served: PolledServer;

  /** Adds a model to the repository `<side>/models`. */
  function add(side: 'x' | 'y', name: string, files: Readonly<Record<string, string>>) {
    for (const [file, text] of Object.entries(files)) {
      const path = join(root, side, 'models', name, file);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
  }
  const adds = (number: number) => ({
    'config.pbtxt': `backend: "javascript" input { ${VALUE} } output { ${VALUE} }`,
    '1/model.mjs': `export const execute = (requests) => requests.map(({ inputs }) => (
      { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: inputs.get('VALUE').data.map((each) => each + ${number}) } } }));`,
  });
  const ensemble = {
    'config.pbtxt': `platform: "ensemble" input { ${VALUE} } output { ${VALUE.replace('VALUE', 'SUM')} }
      ensemble_scheduling { step { model_name: "m" model_version: -1
        input_map { key: "VALUE" value: "VALUE" } output_map { key: "VALUE" value: "SUM" } } }`,
    '1/.keep': '',
  };

  const answerOf = async (path: string) => {
    const { status, outputs, error } = await infer(served.http, path, oneInput('VALUE', 'INT32', [1], [100]));
    return status === 200 ? [...outputs.values()][0]?.data?.[0] : { status, error };
  };
  const becomes = (path: string, answer: unknown) =>
    vi.waitFor(async () => expect(await answerOf(path)).toEqual(answer), { timeout: SEEN_LIMIT_MS });

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'nereid-namespaces-'));
    add('x', 'm', adds(1));
    add('x', 'only', adds(3));
    add('x', 'sums', ensemble);
    mkdirSync(join(root, 'y', 'models'), { recursive: true });
    const repositories = ['x', 'y'].map((side) => join(root, side, 'models'));
    served = await servePolled(mode, repositories, ['--model-namespacing=true']);
    await becomes('m', 101);
  });
  afterAll(async () => {
    const codes = await served.stop();
    rmSync(root, { recursive: true, force: true });
    expect(codes.filter((code) => code !== 0)).toEqual([]);
  });

  test('a name that one repository has is the model, with and without its namespace', async () => {
    for (const path of ['m', 'x%2Fmodels::m', `${encodeURIComponent(join(root, 'x', 'models'))}::m`]) {
      await becomes(path, 101);
    }
    await becomes('sums', 101);
    expect(await answerOf('y%2Fmodels::m')).toMatchObject({ status: 404 });
  });

  test('a name that two have must be told with one; an ensemble means its own', async () => {
    add('y', 'm', adds(2));
    add('y', 'others', ensemble);
    await becomes('m', { status: 400, error: AMBIGUOUS });
    await becomes('x%2Fmodels::m', 101);
    await becomes('y%2Fmodels::m', 102);
    await becomes('y/models::m'.replaceAll('/', '%2f'), 102);
    await becomes('models::m', { status: 400, error: AMBIGUOUS.replace("'m'", "'models::m'") });
    await becomes('sums', 101);
    await becomes('others', 102);
    await becomes('models::only', 103);
    const ready = await fetch(`${served.http}/v2/models/y%2Fmodels::m/ready`);
    expect(ready.status).toBe(200);
    const metadata = await (await fetch(`${served.http}/v2/models/y%2Fmodels::m`)).json();
    expect(metadata).toMatchObject({ name: 'y/models::m', versions: ['1'] });
    const ready_m = (name: string) => ({ name, version: '1', state: 'READY' });
    await vi.waitFor(
      async () => {
        const response = await fetch(`${served.http}/v2/repository/index`, { method: 'POST', body: '{}' });
        expect(await response.json()).toEqual(['only', 'others', 'sums', 'x/models::m', 'y/models::m'].map(ready_m));
      },
      { timeout: SEEN_LIMIT_MS },
    );
  });

  test('a name that is left to one is the model again', async () => {
    rmSync(join(root, 'x', 'models', 'm'), { recursive: true });
    await becomes('m', 102);
    await becomes('y%2Fmodels::m', 102);
    await becomes('others', 102);
    await becomes('sums', 102);
  });
});

import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy } from '../../deployment.mjs';
import { infer, oneInput } from '../../e2e/requests.ts';
import { LARGE_ELEMENTS, makeBenchModels } from './make.mjs';
import { MLPS, mlpReference } from './mlp.mjs';
import { randomValues } from './random.mjs';

const folder = mkdtempSync(join(tmpdir(), 'nereid-bench-models-'));
const names = makeBenchModels(folder);
/** Of an output's size, about 1: sums of a thousand products in FP32 against the same in FP64. */
const TOLERANCE = 1e-3;

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function run(model: string, feeds: Record<string, Tensor>): Promise<Record<string, Tensor>> {
  const session = await InferenceSession.create(join(folder, model, '1', 'model.onnx'));
  try {
    return await session.run(feeds);
  } finally {
    await session.release();
  }
}

const floats = (dims: readonly number[], values: Float32Array) => new Tensor('float32', values, dims);

describe.each(Object.entries(MLPS))('%s', (name, shape) => {
  const width = shape.sizes[0] ?? 0;
  const rows = [7, 8, 9].map((seed) => randomValues(seed, width));

  test.each([1, 3])('in onnxruntime, batch %i, as computed by hand', async (batch) => {
    const values = Float32Array.from(rows.slice(0, batch).flatMap((row) => [...row]));
    const { Y } = await run(name, { X: floats([batch, width], values) });
    const answers = Y?.data as Float32Array;
    expect(Y?.dims).toEqual([batch, shape.sizes.at(-1)]);
    for (const [index, row] of rows.slice(0, batch).entries()) {
      const expected = mlpReference(shape, row);
      const found = answers.subarray(index * expected.length, (index + 1) * expected.length);
      const size = Math.max(...expected.map(Math.abs));
      // An output that had died or exploded on the way would hide an error.
      expect(size).toBeGreaterThan(0.05);
      expect(size).toBeLessThan(100);
      const difference = Math.max(...found.map((value, at) => Math.abs(value - (expected[at] ?? Number.NaN))));
      expect(difference / size).toBeLessThan(TOLERANCE);
    }
  });
});

test('identity_600k gives 614,400 bytes back as they came', async () => {
  const values = randomValues(3, LARGE_ELEMENTS);
  const { OUTPUT } = await run('identity_600k', { INPUT: floats([1, LARGE_ELEMENTS], values) });
  expect(values.byteLength).toBe(614_400);
  expect(OUTPUT?.data).toEqual(values);
});

test('two runs write the same bytes', () => {
  const hashes = () =>
    names.map((name) =>
      createHash('sha256')
        .update(readFileSync(join(folder, name, '1', name === 'sleep10' ? 'model.mjs' : 'model.onnx')))
        .digest('hex'),
    );
  const before = hashes();
  makeBenchModels(folder);
  expect(hashes()).toEqual(before);
});

describe('served', () => {
  let served: Deployment;
  beforeAll(async () => {
    served = await deploy('one', [folder]);
  });
  afterAll(async () => {
    await served.stop();
  });

  test('every configuration loads', async () => {
    for (const name of names) expect((await fetch(`${served.http}/v2/models/${name}/ready`)).status, name).toBe(200);
  });

  test('sleep10 gives its values back', async () => {
    const answer = await infer(served.http, 'sleep10', oneInput('VALUE', 'INT32', [2, 1], [4, 5]));
    expect(answer.outputs.get('VALUE')?.data).toEqual([4, 5]);
  });
});

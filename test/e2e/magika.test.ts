import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { bestLabel, magikaFeatures } from '../../deploy/setup/magika-features.mjs';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { infer, oneInput } from './requests.ts';

/** What the Python package says of the files in magika-files, and of contents that test each rule. */
interface Answers {
  readonly files: { file: string; label: string; score: number; featuresSha256: string }[];
  readonly contents: { rule: string; deflatedBase64: string; answer?: string; featuresSha256?: string }[];
}

const FOLDER = join(ROOT, 'test', 'e2e');
const ANSWERS: Answers = JSON.parse(readFileSync(join(FOLDER, 'magika-answers.json'), 'utf8'));
const SCORE_DIGITS = 3;

const contentOf = (file: string) => readFileSync(join(FOLDER, 'magika-files', file));

function featuresOf(content: Uint8Array): Int32Array {
  const prepared = magikaFeatures(content);
  if (!('features' in prepared)) throw new Error(`too short for the model: ${prepared.answer}`);
  return prepared.features;
}

const sha256 = (features: Int32Array) =>
  createHash('sha256')
    .update(new Uint8Array(features.buffer, features.byteOffset, features.byteLength))
    .digest('hex');

describe('features as the Python package makes them', () => {
  test.each(ANSWERS.files)('of $file', ({ file, featuresSha256 }) => {
    expect(sha256(featuresOf(contentOf(file)))).toBe(featuresSha256);
  });

  test.each(ANSWERS.contents)('$rule', ({ deflatedBase64, answer, featuresSha256 }) => {
    const content = inflateSync(Buffer.from(deflatedBase64, 'base64'));
    if (answer !== undefined) expect(magikaFeatures(content)).toEqual({ answer });
    else expect(sha256(featuresOf(content))).toBe(featuresSha256);
  });
});

const samples = sampleRepository('magika');

describe.skipIf(samples === undefined).each(MODES)('magika (a sample that is downloaded), in mode %s', (mode) => {
  let served: Deployment;
  let labels: string[];

  beforeAll(async () => {
    served = await deploy(mode, [samples ?? ''], ['--model-control-mode=explicit', '--load-model=magika']);
    labels = readFileSync(join(samples ?? '', 'magika', 'labels.txt'), 'utf8')
      .trimEnd()
      .split('\n');
  });
  afterAll(async () => {
    await served.stop();
  });

  test.each(ANSWERS.files)('$file is $label', async ({ file, label, score }) => {
    const features = featuresOf(contentOf(file));
    const answer = await infer(served.http, 'magika', oneInput('bytes', 'INT32', [1, 2048], [...features]));
    expect(answer.error).toBeUndefined();
    const output = answer.outputs.get('target_label');
    expect(output?.shape).toEqual([1, 214]);
    const best = bestLabel((output?.data ?? []) as number[], labels);
    expect(best.label).toBe(label);
    expect(best.score).toBeCloseTo(score, SCORE_DIGITS);
  });

  test('eight files in one batch', async () => {
    const files = ANSWERS.files.slice(0, 8);
    const data = files.flatMap(({ file }) => [...featuresOf(contentOf(file))]);
    const answer = await infer(served.http, 'magika', oneInput('bytes', 'INT32', [files.length, 2048], data));
    const scores = (answer.outputs.get('target_label')?.data ?? []) as number[];
    const found = files.map((_, row) => bestLabel(scores.slice(row * 214, (row + 1) * 214), labels).label);
    expect(found).toEqual(files.map(({ label }) => label));
  });
});

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CACHE, ROOT } from './checkout.mjs';
import { SetupError } from './command.mjs';
import { bestLabel, magikaFeatures } from './magika-features.mjs';
import { sampleRepository } from './samples.mjs';

const ANSWER_LIMIT_MS = 30_000;
const ROW = Array.from({ length: 16 }, (_, index) => index);
const EXAMPLE_FILES = ['README.md', 'package.json'];

/**
 * One real inference on each sample model that is served, as lines to print: the answer, and the curl line that
 * repeats it. A wrong answer throws.
 *
 * @param {string} url the server's, without a slash at its end
 */
export async function firstAnswers(url) {
  const lines = [];
  if (await isReady(url, 'simple')) lines.push(...(await askSimple(url)));
  if (sampleRepository() !== undefined && (await isReady(url, 'magika'))) lines.push(...(await askMagika(url)));
  return lines;
}

async function askSimple(url) {
  const tensor = (name, data) => ({ name, shape: [1, ROW.length], datatype: 'INT32', data });
  const request = {
    inputs: [
      tensor('INPUT0', ROW),
      tensor(
        'INPUT1',
        ROW.map(() => 1),
      ),
    ],
  };
  const outputs = await infer(url, 'simple', request);
  const sum = outputs.get('OUTPUT0')?.data;
  const difference = outputs.get('OUTPUT1')?.data;
  if (
    !isEqual(
      sum,
      ROW.map((value) => value + 1),
    ) ||
    !isEqual(
      difference,
      ROW.map((value) => value - 1),
    )
  ) {
    throw new SetupError(`simple answered wrongly: ${JSON.stringify([sum, difference])}`);
  }
  return [
    `simple: [${ROW.join(' ')}] + 1 = [${sum.join(' ')}]; again:`,
    `  curl -s ${url}/v2/models/simple/infer -d '${JSON.stringify(request)}'`,
  ];
}

async function askMagika(url) {
  const example = EXAMPLE_FILES.find((name) => existsSync(join(ROOT, name)));
  const prepared = magikaFeatures(readFileSync(join(ROOT, example)));
  if (prepared.features === undefined) return [];
  const tensor = { name: 'bytes', shape: [1, prepared.features.length], datatype: 'INT32' };
  const request = { inputs: [{ ...tensor, data: Array.from(prepared.features) }] };
  const outputs = await infer(url, 'magika', request);
  const labels = readFileSync(join(sampleRepository(), 'magika', 'labels.txt'), 'utf8')
    .trimEnd()
    .split('\n');
  const { label, score } = bestLabel(outputs.get('target_label')?.data ?? [], labels);
  if (label === undefined || !(score > 0 && score <= 1.001)) throw new SetupError('magika gave no label');
  const file = join(CACHE, 'magika-request.json');
  writeFileSync(file, JSON.stringify(request));
  return [
    `magika: ${example} is ${label} (score ${score.toFixed(3)}, label ${labels.indexOf(label)} of labels.txt); again:`,
    `  curl -s ${url}/v2/models/magika/infer -d @${relative(ROOT, file)}`,
  ];
}

async function infer(url, model, request) {
  const response = await fetch(`${url}/v2/models/${model}/infer`, {
    method: 'POST',
    body: JSON.stringify(request),
    signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
  });
  const text = await response.text();
  if (!response.ok) throw new SetupError(`${model} answered ${response.status}: ${text}`);
  return new Map(JSON.parse(text).outputs.map((output) => [output.name, output]));
}

async function isReady(url, model) {
  const response = await fetch(`${url}/v2/models/${model}/ready`, { signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
  await response.arrayBuffer();
  return response.ok;
}

function isEqual(left, right) {
  return Array.isArray(left) && left.length === right.length && left.every((value, index) => value === right[index]);
}

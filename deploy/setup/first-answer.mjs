import { SetupError } from './command.mjs';
import { ASK_SAMPLE } from './first-answer-samples.mjs';
import { sampleRepository } from './samples.mjs';

const ANSWER_LIMIT_MS = 30_000;
const ROW = Array.from({ length: 16 }, (_, index) => index);

/**
 * One real inference on each sample model that is served, as lines to print: the answer, and the curl line that
 * repeats it. A wrong answer throws.
 *
 * @param {string} url the server's, without a slash at its end
 */
export async function firstAnswers(url) {
  const lines = [];
  if (await isReady(url, 'simple')) lines.push(...(await askSimple(url)));
  for (const [name, ask] of Object.entries(ASK_SAMPLE)) {
    if (sampleRepository(name) === undefined || !(await isReady(url, name))) continue;
    lines.push(...(await ask((model, request) => infer(url, model, request), url)));
  }
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

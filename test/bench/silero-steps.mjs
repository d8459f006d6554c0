/** Steps of sequences of the sample `silero_vad`, whose state the server keeps. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { asBinary, HEADER_LENGTH, readTensors } from '../v2-tensors.mjs';
import { randomValues } from './models/random.mjs';

const FRAME_SAMPLES = 512;
const LOUDNESS = 0.5;
/** Ids of the same length, so that all requests have the same headers. */
const FIRST_ID = 1_001;

/** One frame of sound for a sequence. */
function step(index, flags = {}) {
  const values = randomValues(index, FRAME_SAMPLES).map((value) => value * LOUDNESS);
  return asBinary([{ name: 'audio', datatype: 'FP32', shape: [1, FRAME_SAMPLES], values }], {
    sequence_id: FIRST_ID + index,
    ...flags,
  });
}

/** The load generator's requests: each of so many clients goes on with its own sequence; `folder` is made for bodies. */
export function sequenceSteps(model, sequences, folder) {
  mkdirSync(folder);
  const asked = Array.from({ length: sequences }, (_, index) => step(index));
  const bodies = asked.map(({ body }, index) => {
    const file = join(folder, `${index}`);
    writeFileSync(file, body);
    return file;
  });
  const headers = Object.entries(asked[0].headers).map(([name, value]) => `${name}: ${value}`);
  return { path: pathOf(model), headers, bodies, checks: asked.map(() => wrong), own: true };
}

const pathOf = (model) => `/v2/models/${model}/infer`;

/** The first step of every sequence; those of a turn before begin anew. */
export async function beginSequences({ port }, model, sequences) {
  await Promise.all(
    Array.from({ length: sequences }, async (_, index) => {
      const { headers, body } = step(index, { sequence_start: true });
      const answer = await fetch(`http://127.0.0.1:${port}${pathOf(model)}`, { method: 'POST', headers, body });
      if (!answer.ok) throw new Error(`${model}: ${answer.status} ${await answer.text()}`);
      const problem = wrong(Buffer.from(await answer.arrayBuffer()), answer.headers);
      if (problem !== undefined) throw new Error(problem);
    }),
  );
}

/** Whether it is a probability; that it is the right one, whatever it is batched with, is `test/e2e/silero`'s. */
function wrong(body, headers) {
  const values = readTensors(body, headers.get(HEADER_LENGTH)).get('output');
  const [probability] = values ?? [];
  return values?.length === 1 && probability >= 0 && probability <= 1 ? undefined : `the output is ${values}`;
}

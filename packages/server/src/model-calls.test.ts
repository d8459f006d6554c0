import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createServer, type Server } from './index.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const ROW = 16;
const NOTHING = { waiting: 0, queued: 0, running: 0, batches: 0, timers: 0 };

let repository: string;
let server: Server;

/** The blocks of code of docs/models.md below that heading, by language. */
async function example(heading: string): Promise<Record<string, string>> {
  const page = await readFile(join(ROOT, 'docs', 'models.md'), 'utf8');
  const [, section = ''] = page.split(`\n### ${heading}\n`);
  const [text = ''] = section.split('\n#');
  return Object.fromEntries([...text.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, kind, code]) => [kind, code]));
}

async function writeModel(name: string, config: string, code: string): Promise<void> {
  await mkdir(join(repository, name, '1'), { recursive: true });
  await writeFile(join(repository, name, 'config.pbtxt'), config);
  await writeFile(join(repository, name, '1', 'model.mjs'), code);
}

beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-calls-'));
});
afterEach(async () => {
  await server.stop();
  await rm(repository, { recursive: true });
});

test('the example of the docs answers, and nothing is left of its calls', async () => {
  const { protobuf = '', js = '' } = await example('Calls of other models');
  await cp(join(ROOT, 'model_repository', 'simple'), join(repository, 'simple'), { recursive: true });
  await writeModel('distance', protobuf, js);
  server = await createServer({ modelRepositories: [repository] });
  const row = (from: number) => Int32Array.from({ length: ROW }, (_, index) => from + index);
  const asked = (by: number) =>
    server.infer({
      model: 'distance',
      inputs: {
        A: { datatype: 'INT32', shape: [1, ROW], data: row(0) },
        B: { datatype: 'INT32', shape: [1, ROW], data: row(by) },
      },
    });
  const answers = await Promise.all([1, 2, 3, 4].map(asked));
  expect(answers.map(({ outputs }) => outputs.DISTANCE?.data)).toEqual(
    [1, 2, 3, 4].map((by) => Int32Array.of(by * ROW)),
  );
  expect(server.counts()).toEqual(NOTHING);
  const [statistics] = await server.statistics('simple');
  expect(statistics?.inferenceCount).toBe(4);
});

test('a model that waits for itself waits until its client leaves', async () => {
  const io = 'input { name: "X" data_type: TYPE_INT32 dims: 1 } output { name: "X" data_type: TYPE_INT32 dims: 1 }';
  await writeModel(
    'itself',
    `backend: "javascript" ${io} instance_group { count: 1 kind: KIND_CPU }`,
    `let context;
    export const initialize = (start) => { context = start.context; };
    export const execute = ([{ inputs }]) => Promise.all([context.infer('itself', { inputs })]);`,
  );
  server = await createServer({ modelRepositories: [repository] });
  const leaving = new AbortController();
  const asked = server
    .infer({ model: 'itself', inputs: { X: { datatype: 'INT32', shape: [1], data: [1] } } }, leaving)
    .catch(({ code }: { code: string }) => code);
  // The call is behind the request that makes it.
  await expect.poll(() => server.counts().running).toBe(2);
  leaving.abort();
  expect(await asked).toBe('CANCELLED');
  await expect.poll(() => server.counts()).toEqual(NOTHING);
});

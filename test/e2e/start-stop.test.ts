import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput, SIMPLE_SUM, simpleRequest } from './requests.ts';
import { isPortFree, type Served, serve } from './serve.ts';

const SAMPLES = join(ROOT, 'model_repository');

let served: Served | undefined;
let folder: ModelFolder | undefined;

afterEach(async () => {
  served?.process.kill('SIGKILL');
  await served?.ended;
  folder?.remove();
  served = undefined;
  folder = undefined;
});

test.each(['SIGTERM', 'SIGINT'] as const)('%s stops the server in order and frees its ports', async (signal) => {
  served = await serve([SAMPLES]);
  const answer = await infer(served.http, 'simple', simpleRequest());
  expect(answer.outputs.get('OUTPUT0')?.data).toEqual(SIMPLE_SUM);
  const ending = await served.stop(signal);
  expect(ending).toMatchObject({ code: 0, signal: null });
  for (const port of served.ports) expect(await isPortFree(port), `port ${port}`).toBe(true);
});

test('the start shows the table of models and where each service listens', async () => {
  served = await serve([SAMPLES]);
  const { output } = await served.stop();
  expect(output).toMatch(/\|\s*simple\s*\|\s*1\s*\|\s*READY\s*\|/);
  expect(output).toMatch(/\|\s*redact\s*\|\s*1\s*\|\s*READY\s*\|/);
  expect(output).toMatch(new RegExp(`Started HTTPService at 0\\.0\\.0\\.0:${served.ports[0]}\\b`));
  expect(output).toMatch(new RegExp(`Started Metrics Service at 0\\.0\\.0\\.0:${served.ports[2]}\\b`));
});

test('a stop lets the running request finish', async () => {
  folder = createModelFolder();
  const go = join(folder.path, 'slow', 'go');
  folder.addJavaScript(
    'slow',
    `import { existsSync } from 'node:fs';
     import { setTimeout } from 'node:timers/promises';
     export async function execute(requests) {
       console.log('executing');
       while (!existsSync(${JSON.stringify(go)})) await setTimeout(10);
       return requests.map((request) => ({ outputs: { VALUE: request.inputs.get('VALUE') } }));
     }`,
  );
  served = await serve([folder.path]);
  const answer = infer(served.http, 'slow', oneInput('VALUE', 'INT32', [1], [7]));
  await served.waitFor(/executing/);
  const ending = served.stop();
  await served.waitFor(/SIGTERM received: stopping/);
  writeFileSync(go, '');
  expect((await answer).outputs.get('VALUE')?.data).toEqual([7]);
  expect((await ending).code).toBe(0);
});

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { type Answer, infer, oneInput } from './requests.ts';
import { type Served, serve } from './serve.ts';

const ECHO = 'requests.map((request) => ({ outputs: { VALUE: request.inputs.get("VALUE") } }))';

let folder: ModelFolder;
let served: Served;

beforeAll(async () => {
  folder = createModelFolder();
  folder.addJavaScript('echo', `export const execute = (requests) => ${ECHO};`);
  folder.addJavaScript(
    'throws',
    `export function execute(requests) {
       if (requests.some((request) => request.inputs.get('VALUE').data[0] < 0)) throw new Error('no negative values');
       return ${ECHO};
     }`,
  );
  folder.addJavaScript(
    'answers_errors',
    `export const execute = (requests) => requests.map((request) => new Error('this one not'));`,
  );
  folder.addJavaScript(
    'exits',
    `export function execute(requests) {
       if (requests.some((request) => request.inputs.get('VALUE').data[0] < 0)) process.exit(3);
       return ${ECHO};
     }`,
  );
  folder.addJavaScript(
    'rejects_later',
    `export function execute(requests) {
       if (requests.some((request) => request.inputs.get('VALUE').data[0] < 0)) {
         setImmediate(() => { throw new Error('outside of any request'); });
       }
       return ${ECHO};
     }`,
  );
  folder.addJavaScript('wrong_output', `export const execute = (requests) => requests.map(() => ({ outputs: {} }));`);
  // Writes down each value that it is given; waits until the file "go" is there for values over 100.
  folder.addJavaScript(
    'recorder',
    `import { appendFileSync, existsSync } from 'node:fs';
     import { setTimeout } from 'node:timers/promises';
     const folder = ${JSON.stringify(folder.path)};
     export async function execute(requests) {
       for (const request of requests) {
         const [value] = request.inputs.get('VALUE').data;
         appendFileSync(folder + '/executed', value + '\\n');
         while (value > 100 && !existsSync(folder + '/go')) await setTimeout(10);
       }
       return ${ECHO};
     }`,
  );
  served = await serve([folder.path]);
});
afterAll(async () => {
  const ending = await served.stop();
  folder.remove();
  expect(ending.code, ending.output).toBe(0);
});

const ask = (model: string, value: number): Promise<Answer> =>
  infer(served.http, model, oneInput('VALUE', 'INT32', [1], [value]));

async function expectEcho(model: string, value: number): Promise<void> {
  const answer = await ask(model, value);
  expect(answer, model).toMatchObject({ status: 200, error: undefined });
  expect(answer.outputs.get('VALUE')?.data).toEqual([value]);
}

const answers = (model: string) => async () => (await ask(model, 1)).status === 200;

test('what a model throws is its request’s error', async () => {
  const answer = await ask('throws', -1);
  expect(answer.status).toBe(500);
  expect(answer.error).toContain('no negative values');
  await expectEcho('throws', 5);
});

test('an Error that a model answers is its request’s error', async () => {
  const answer = await ask('answers_errors', 1);
  expect(answer.status).toBe(500);
  expect(answer.error).toContain('this one not');
});

test('a missing output is an error that names it', async () => {
  const answer = await ask('wrong_output', 1);
  expect(answer.status).toBe(500);
  expect(answer.error).toContain('VALUE');
});

describe('an instance that calls process.exit', () => {
  test('fails only its own request and is back', async () => {
    const [failed, other] = await Promise.all([ask('exits', -1), ask('echo', 2)]);
    expect(failed.status).toBeGreaterThanOrEqual(500);
    expect(failed.error).toMatch(/./);
    expect(other.outputs.get('VALUE')?.data).toEqual([2]);
    await eventually('the instance is back', answers('exits'));
    await expectEcho('echo', 3);
  });

  test('is back a second time', async () => {
    expect((await ask('exits', -1)).status).toBeGreaterThanOrEqual(500);
    await eventually('the instance is back', answers('exits'));
  });
});

test('an error outside of any request does not end the server', async () => {
  await ask('rejects_later', -1);
  await eventually('the instance is back', answers('rejects_later'));
  await expectEcho('echo', 4);
});

test('a client that leaves: its waiting request is never executed, its running one is forgotten', async () => {
  const executed = () => {
    const file = join(folder.path, 'executed');
    return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
  };
  const leave = new AbortController();
  const send = (value: number, signal?: AbortSignal) =>
    fetch(`${served.http}/v2/models/recorder/infer`, {
      method: 'POST',
      body: oneInput('VALUE', 'INT32', [1], [value]),
      ...(signal === undefined ? {} : { signal }),
    });
  const pending = () => metric(served.metrics, 'nv_inference_pending_request_count', { model: 'recorder' });

  const running = send(101, leave.signal).catch(() => 'left');
  await eventually('the first runs', async () => executed().includes('101'));
  const waiting = send(2, leave.signal).catch(() => 'left');
  const staying = send(3);
  await eventually('two wait', async () => (await pending()) === 2);
  leave.abort();
  expect(await running).toBe('left');
  expect(await waiting).toBe('left');
  await eventually('one waits', async () => (await pending()) === 1);

  writeFileSync(join(folder.path, 'go'), '');
  expect((await staying).status).toBe(200);
  expect(executed()).toEqual(['101', '3']);
  expect(await pending()).toBe(0);
  await expectEcho('recorder', 4);
});

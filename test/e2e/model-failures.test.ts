import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { type Answer, infer, oneInput } from './requests.ts';

/** The value over which a recorder waits. */
const LONG = 101;
const ECHO = 'requests.map((request) => ({ outputs: { VALUE: request.inputs.get("VALUE") } }))';

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;

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
    folder.addJavaScript('wrong_output', `export const execute = (requests) => ${ECHO.replace('VALUE', 'WRONG')};`);
    // Writes down each value that it is given; over a LONG one it waits until its file "go" is there.
    for (const name of ['recorder', 'other_recorder']) {
      const file = JSON.stringify(join(folder.path, name));
      folder.addJavaScript(
        name,
        `import { appendFileSync, existsSync } from 'node:fs';
       import { setTimeout } from 'node:timers/promises';
       export async function execute(requests) {
         for (const request of requests) {
           const [value] = request.inputs.get('VALUE').data;
           appendFileSync(${file} + '.executed', value + '\\n');
           while (value === ${LONG} && !existsSync(${file} + '.go')) await setTimeout(10);
         }
         return ${ECHO};
       }`,
      );
    }
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
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

  test('an output that the configuration does not have is an error that names it', async () => {
    const answer = await ask('wrong_output', 1);
    expect(answer.status).toBe(500);
    expect(answer.error).toContain('WRONG');
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

  describe('a client that leaves', () => {
    const pending = (model: string) => metric(served.metrics, 'nv_inference_pending_request_count', { model });
    const executed = (model: string) => {
      const file = join(folder.path, `${model}.executed`);
      return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n').map(Number) : [];
    };
    const finish = (model: string) => writeFileSync(join(folder.path, `${model}.go`), '');

    const send = (model: string, value: number, signal?: AbortSignal): Promise<number | 'left'> =>
      fetch(`${served.http}/v2/models/${model}/infer`, {
        method: 'POST',
        body: oneInput('VALUE', 'INT32', [1], [value]),
        ...(signal === undefined ? {} : { signal }),
      }).then(
        (response) => response.arrayBuffer().then(() => response.status),
        () => 'left' as const,
      );

    test('is forgotten: what waits in the queue is never executed', async () => {
      const leaving = new AbortController();
      try {
        const running = send('recorder', LONG, leaving.signal);
        await eventually('the first runs', async () => executed('recorder').includes(LONG));
        const next = send('recorder', 2);
        await eventually('one waits', async () => (await pending('recorder')) === 1);
        const waiting = send('recorder', 3, leaving.signal);
        await eventually('two wait', async () => (await pending('recorder')) === 2);
        const last = send('recorder', 4);
        await eventually('three wait', async () => (await pending('recorder')) === 3);
        leaving.abort();
        expect([await running, await waiting]).toEqual(['left', 'left']);
        await eventually('two wait', async () => (await pending('recorder')) === 2);
        finish('recorder');
        expect([await next, await last]).toEqual([200, 200]);
        expect(executed('recorder')).toEqual([LONG, 2, 4]);
        expect(await pending('recorder')).toBe(0);
        await expectEcho('recorder', 5);
      } finally {
        finish('recorder');
      }
    });

    test('is forgotten: what is next at the instance is not executed either', async () => {
      const leaving = new AbortController();
      try {
        const running = send('other_recorder', LONG);
        await eventually('the first runs', async () => executed('other_recorder').includes(LONG));
        const next = send('other_recorder', 2, leaving.signal);
        await eventually('one waits', async () => (await pending('other_recorder')) === 1);
        leaving.abort();
        expect(await next).toBe('left');
        // Each request has a connection of its own: that its end has been seen shows in nothing before this answer.
        await expectEcho('echo', 6);
        finish('other_recorder');
        expect(await running).toBe(200);
        await expectEcho('other_recorder', 3);
        expect(executed('other_recorder')).toEqual([LONG, 3]);
        const model = 'other_recorder';
        // The owner counts an execution a little after the client has its answer.
        const count = (name: string, labels = {}) => metric(served.metrics, name, { model, ...labels });
        await eventually('all is counted', async () => (await count('nv_inference_exec_count')) === 2);
        expect(await count('nv_inference_request_success')).toBe(2);
        expect(await count('nv_inference_request_failure', { reason: 'CANCELED' })).toBe(1);
      } finally {
        finish('other_recorder');
      }
    });
  });
});

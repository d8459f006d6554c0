import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { oneInput } from './requests.ts';

/** Answers as often as VALUE says, counting from 0; tells how many of its streams have ended where it is asked to. */
const COUNTS = `
  const answer = (value) => ({ outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(value) } } });
  let ended = 0;
  async function* answers({ inputs, parameters, signal }) {
    try {
      const [count] = inputs.get('VALUE').data;
      if (parameters.ended) yield answer(ended);
      else for (let value = 0; value < count; value++) yield value === parameters.fail_at ? new Error('not this') : answer(value);
      if (parameters.hang) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    } finally {
      ended++;
    }
  }
  export const execute = (requests) => requests.map(answers);`;

/** Gives its parameters back. */
const GIVES_BACK = `
  export const execute = (requests) => requests.map(({ inputs, parameters }) => ({
    outputs: { VALUE: inputs.get('VALUE') },
    parameters,
  }));`;

const NOT_ONE = {
  error:
    'generate expects model to produce exactly 1 response, ' +
    'use generate stream for model that generates various number of responses',
};

let folder: ModelFolder;

beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript('counts', COUNTS, 'model_transaction_policy { decoupled: true }');
  folder.addJavaScript('gives_back', GIVES_BACK);
});
afterAll(() => {
  folder.remove();
});

describe.each(MODES)('in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [folder.path], ['--http-max-input-size=2000000']);
  });
  afterAll(async () => {
    for (const { code, output } of await served.stop()) expect(code, output).toBe(0);
  });

  function ask(path: string, body: object, options: RequestInit = {}): Promise<Response> {
    return fetch(`${served.http}/v2/models/${path}`, { method: 'POST', body: JSON.stringify(body), ...options });
  }

  const event = (value: number) => `data: {"VALUE":${value},"model_name":"counts","model_version":"1"}\n\n`;

  test('generate gives the one answer of a model', async () => {
    const counts = await ask('counts/generate', { VALUE: 1 });
    expect([counts.status, await counts.json()]).toEqual([200, { VALUE: 0, model_name: 'counts', model_version: '1' }]);
    const plain = await ask('gives_back/generate', { VALUE: 9, id: 'a', colour: 'red', parameters: { ratio: 0.5 } });
    expect(await plain.json()).toEqual({
      VALUE: 9,
      id: 'a',
      colour: 'red',
      ratio: 0.5,
      model_name: 'gives_back',
      model_version: '1',
    });
  });

  test.each([0, 2])('generate of %i answers says so', async (count) => {
    const response = await ask('counts/generate', { VALUE: count });
    expect([response.status, await response.json()]).toEqual([200, NOT_ONE]);
  });

  test.each([0, 1, 300])('generate_stream gives %i answers in their order', async (count) => {
    const response = await ask('counts/generate_stream', { VALUE: count });
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
    expect(await response.text()).toBe(Array.from({ length: count }, (_, value) => event(value)).join(''));
  });

  test('an answer that is an error is one of the events', async () => {
    const response = await ask('counts/generate_stream', { VALUE: 3, fail_at: 1 });
    expect([response.status, await response.text()]).toEqual([
      200,
      `${event(0)}data: {"error":"not this"}\n\n${event(2)}`,
    ]);
    const first = await ask('counts/generate_stream', { VALUE: 2, fail_at: 0 });
    expect([first.status, await first.text()]).toEqual([400, `data: {"error":"not this"}\n\n${event(1)}`]);
  });

  test('a stream whose client leaves is cancelled at the model', async () => {
    const leaving = new AbortController();
    const response = await ask('counts/generate_stream', { VALUE: 1, hang: true }, { signal: leaving.signal });
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe(event(0));
    leaving.abort();
    // The model's one instance is free only once the stream has ended.
    const next = await ask('counts/generate', { VALUE: 1, ended: true });
    expect(((await next.json()) as { VALUE: number }).VALUE).toBeGreaterThan(0);
  });

  test('parameters of every kind reach a model, and come back from it', async () => {
    const parameters =
      '{"text":"é","yes":true,"no":false,"whole":-7,"beyond":9007199254740993,"least":-9223372036854775808,"part":0.5}';
    const body = oneInput('VALUE', 'INT32', [1], [1]).replace(/\}$/, `,"parameters":${parameters}}`);
    const response = await fetch(`${served.http}/v2/models/gives_back/infer`, { method: 'POST', body });
    expect(await response.text()).toContain(`"parameters":${parameters},"outputs"`);
  });

  describe('compressed', () => {
    const request = oneInput('VALUE', 'INT32', [1], [5]);
    const post = (body: Uint8Array, headers: Record<string, string>) =>
      fetch(`${served.http}/v2/models/gives_back/infer`, { method: 'POST', body: new Uint8Array(body), headers });

    test('requests are taken, and answers are compressed', async () => {
      const response = await post(gzipSync(request), { 'Content-Encoding': 'gzip', 'Accept-Encoding': 'deflate' });
      expect([response.status, response.headers.get('content-encoding')]).toEqual([200, 'deflate']);
      expect(await response.json()).toMatchObject({ outputs: [{ name: 'VALUE', data: [5] }] });
    });

    test.each([
      ['that are not what they say', Buffer.from('notgzip'), 'gzip', 400, /^failed to decompress the request body/],
      ['that become too large', gzipSync(Buffer.alloc(100_000_000)), 'gzip', 400, /--http-max-input-size/],
      ['of another coding', Buffer.from(request), 'br', 501, /^Unsupported compression type$/],
    ])('requests %s are refused', async (_, body, coding, status, message) => {
      const response = await post(body, { 'Content-Encoding': coding });
      expect(response.status).toBe(status);
      expect(((await response.json()) as { error: string }).error).toMatch(message);
      expect(response.headers.get('accept-encoding')).toBe(status === 501 ? 'gzip, deflate' : null);
    });
  });
});

import { createClient, NereidError, texts } from '@nereid/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

/** Decoupled: answers VALUE times, counting from 0. 99 breaks off at once, and -1 never ends. */
const COUNTS = `export const execute = (requests) => requests.map(async function* ({ inputs, signal }) {
  const [until] = inputs.get('VALUE').data;
  for (let n = 0; (n < until || until === -1) && !signal.aborted; n++) {
    if (until === 99) throw new Error('not this');
    yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(n) } } };
    await new Promise((resolve) => setTimeout(resolve));
  }
});`;

let folder: ModelFolder;
beforeAll(() => {
  folder = createModelFolder();
  folder.addEcho('texts', 'BYTES', [-1]);
  folder.addEcho('longs', 'INT64', [-1]);
  folder.addJavaScript('counts', COUNTS, 'model_transaction_policy { decoupled: true }');
});
afterAll(() => folder.remove());

describe.each(MODES)('in mode %s', (mode) => {
  let deployment: Deployment;
  let client: ReturnType<typeof createClient>;
  beforeAll(async () => {
    deployment = await deploy(mode, [folder.path]);
    client = createClient({ url: deployment.http });
  });
  afterAll(async () => {
    await deployment?.stop();
  });

  test('infer gives tensors as they were, and the error of the server', async () => {
    const { outputs, ...rest } = await client.infer({
      model: 'texts',
      id: 'mine',
      inputs: { INPUT0: { datatype: 'BYTES', shape: [2], data: ['é', Uint8Array.of(0x61)] } },
    });
    expect([rest, texts(outputs.OUTPUT0)]).toEqual([
      { model: 'texts', version: '1', id: 'mine', parameters: {} },
      ['é', 'a'],
    ]);
    const wrong = client.infer({ model: 'longs', inputs: { NONE: { datatype: 'INT64', shape: [1], data: [1] } } });
    await expect(wrong).rejects.toMatchObject({
      code: 'INVALID_ARG',
      status: 400,
      requestId: expect.stringMatching(/./),
    });
    await expect(wrong).rejects.toBeInstanceOf(NereidError);
  });

  test('what a server knows of its models', async () => {
    expect([await client.isReady(), await client.isReady('longs'), await client.isReady('none')]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await createClient({ url: 'http://127.0.0.1:1' }).isReady()).toBe(false);
    expect((await client.metadata('longs')).inputs).toEqual([{ name: 'INPUT0', datatype: 'INT64', shape: [-1] }]);
  });

  test('generate and stream', async () => {
    const input = { model: 'longs', inputs: { INPUT0: [2n ** 63n - 1n, 5] } };
    expect(await client.generate(input)).toMatchObject({ OUTPUT0: [2n ** 63n - 1n, 5] });
    const values = [];
    for await (const { VALUE } of client.stream({ model: 'counts', inputs: { VALUE: 3 } })) values.push(VALUE);
    expect(values).toEqual([0, 1, 2]);
    await expect(client.stream({ model: 'counts', inputs: { VALUE: 99 } }).next()).rejects.toThrow('not this');
    await expect(client.stream({ model: 'none', inputs: {} }).next()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('a stream that is left ends at its model', async () => {
    for await (const { VALUE } of client.stream({ model: 'counts', inputs: { VALUE: -1 } })) if (VALUE === 2) break;
    const caller = new AbortController();
    const stream = client.stream({ model: 'counts', inputs: { VALUE: -1 } }, { signal: caller.signal });
    await stream.next();
    caller.abort(new Error('left'));
    await expect(async () => {
      for await (const _ of stream);
    }).rejects.toThrow('left');
    // One instance: had one of the two gone on, this would never be answered.
    expect((await client.stream({ model: 'counts', inputs: { VALUE: 1 } }).next()).value).toMatchObject({ VALUE: 0 });
  });
});

import { expect, test } from 'vitest';
import { createClient } from './client.ts';

const URL = 'http://host';

function fakeClient(answer: () => Response) {
  const sent: unknown[] = [];
  const client = createClient({
    url: URL,
    retry: { attempts: 1 },
    fetch: async (url, { method, body }) => {
      sent.push([method, url.slice(URL.length), JSON.parse(String(body))]);
      return answer();
    },
  });
  return { client, sent };
}

test('the index is what the server tells', async () => {
  const index = [{ name: 'a', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' }, { name: 'b' }];
  const { client, sent } = fakeClient(() => Response.json(index));
  expect(await client.models()).toEqual(index);
  expect(sent).toEqual([['POST', '/v2/repository/index', {}]]);
});

test('an index that is none is an error', async () => {
  const { client } = fakeClient(() => Response.json({}));
  await expect(client.models()).rejects.toMatchObject({ code: 'INTERNAL' });
});

test('a load sends its config as text and its files as base64', async () => {
  const { client, sent } = fakeClient(() => new Response(''));
  const files = { '1/model.onnx': Uint8Array.of(0, 255, 1) };
  await client.loadModel('x/y::a');
  await client.loadModel('a', { config: { backend: 'onnxruntime', max_batch_size: 4 }, files });
  await client.loadModel('a', { config: '{"dims": [ 9007199254740993 ]}' });
  expect(sent).toEqual([
    ['POST', '/v2/repository/models/x%2Fy%3A%3Aa/load', { parameters: {} }],
    [
      'POST',
      '/v2/repository/models/a/load',
      { parameters: { config: '{"backend":"onnxruntime","max_batch_size":4}', 'file:1/model.onnx': 'AP8B' } },
    ],
    ['POST', '/v2/repository/models/a/load', { parameters: { config: '{"dims": [ 9007199254740993 ]}' } }],
  ]);
});

test('an unload says what goes along', async () => {
  const { client, sent } = fakeClient(() => new Response(''));
  await client.unloadModel('a');
  await client.unloadModel('a', { unloadDependents: true });
  expect(sent).toEqual([
    ['POST', '/v2/repository/models/a/unload', { parameters: {} }],
    ['POST', '/v2/repository/models/a/unload', { parameters: { unload_dependents: true } }],
  ]);
});

test('a refusal has the words of the server', async () => {
  const error = 'explicit model load / unload is not allowed if polling is enabled';
  const { client } = fakeClient(() => Response.json({ error }, { status: 503 }));
  await expect(client.loadModel('a')).rejects.toMatchObject({ code: 'UNAVAILABLE', message: error, status: 503 });
});

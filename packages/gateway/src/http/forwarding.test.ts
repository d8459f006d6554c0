import { afterEach, expect, it } from 'vitest';
import { echo, identity, modelRecord, SIMPLE } from '../gateway-fixture.ts';
import { compileForwardPattern } from '../header-forward.ts';
import { type HttpFixture, httpFixture, openConnection, post } from './http-fixture.ts';

const tensor = (name: string) => ({ name, datatype: 'INT32', shape: [1, 2], data: [1, 2] });
const good = (parameters?: object) => JSON.stringify({ inputs: [tensor('INPUT0'), tensor('INPUT1')], parameters });

let fixture: HttpFixture;
afterEach(async () => {
  await fixture.http.close(0);
  await fixture.gateway.close();
});

/** The answer, and the parameters that the model sees. Over a socket, where the case of names is as sent. */
async function ask(pattern: string | undefined, headers: readonly string[], body: string, model = 'simple') {
  const compiled = compileForwardPattern(pattern ?? '');
  if (!compiled.ok) throw new Error(compiled.error.message);
  const models = [modelRecord(SIMPLE), modelRecord(identity('bytes', 'UINT8'))];
  const http = pattern === undefined ? {} : { forwards: compiled.value };
  fixture = await httpFixture({ models, answer: echo, http });
  const client = await openConnection((await fixture.http.listen()).url);
  client.socket.write(post(`/v2/models/${model}/infer`, body, headers));
  const text = await client.until(/\r\n\r\n[\s\S]*\}/);
  client.socket.destroy();
  const [message] = fixture.received;
  return { text, parameters: message?.kind === 'infer' ? Object.entries(message.request.parameters) : undefined };
}

const HEADERS = ['X-Seen-Colour: red', 'x-seen-size: 5', 'Other: 1'];

it('headers of the pattern are parameters under the names as sent', async () => {
  expect((await ask('X-Seen-.*', HEADERS, good({ size: 4 }))).parameters).toEqual([
    ['size', 4n],
    ['X-Seen-Colour', 'red'],
    ['x-seen-size', '5'],
  ]);
});

it('of a raw request too', async () => {
  const { parameters } = await ask('colour', [...HEADERS, 'Inference-Header-Content-Length: 0'], 'ab', 'bytes');
  expect(parameters).toEqual([['X-Seen-Colour', 'red']]);
});

it('none without the flag', async () => {
  expect((await ask(undefined, HEADERS, good())).parameters).toEqual([]);
});

it('a reserved name is refused before the model sees anything', async () => {
  const { text, parameters } = await ask('.*', ['priority: 1'], good());
  expect(text).toMatch(/^HTTP\/1.1 400 [\s\S]*header 'priority' can not be forwarded/);
  expect(parameters).toBeUndefined();
});

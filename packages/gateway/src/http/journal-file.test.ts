import { gunzipSync, gzipSync } from 'node:zlib';
import type { RecordedStep } from '@nereid/protocol';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  failure,
  int32,
  type MemoryJournal,
  memoryJournal,
  outputs,
  recordedStep,
  recordingOf,
} from '../journal-fixture.ts';
import { type HttpFixture, openConnection } from './http-fixture.ts';
import { journalFixture } from './journal-fixture.ts';

const PATH = '/nereid/v1/journal';
const ID = 'no%20such%20model%20here~gw-0:1';
const LARGE = { name: 'INPUT', datatype: 'UINT8', shape: [1, 50_000], data: new Uint8Array(50_000).fill(7) } as const;
const STEPS: readonly RecordedStep[] = [
  recordedStep(0, { request: { correlationId: 'é', parameters: { note: 'x' } } }),
  recordedStep(1, { request: { correlationId: 'é', inputs: [LARGE] } }),
  recordedStep(2, { answers: [failure({ code: 'INTERNAL', message: 'it broke' }), outputs(int32('OUTPUT', 2))] }),
];

let store: MemoryJournal;
let http: HttpFixture['http'];
let file: Buffer;

beforeEach(async () => {
  store = memoryJournal();
  ({ http } = await journalFixture(store, { models: [] }));
  store.add(recordingOf(ID, STEPS, { correlationId: 'é', state: 'open', worker: 'wk-gone' }), STEPS);
  file = (await exported('')).rawPayload;
});

const headers = { host: 'localhost' };
const exported = (query: string) => http.inject({ method: 'GET', url: `${PATH}/${ID}/export${query}`, headers });
const imported = (payload: Buffer, more: Record<string, string> = {}) =>
  http.inject({ method: 'POST', url: PATH, headers: { ...headers, ...more }, payload });
const kept = async () => (await http.inject({ method: 'GET', url: PATH, headers })).json().recordings;

describe('a recording', () => {
  it('goes out as a file, gzipped where that is asked for', async () => {
    const plain = await exported('?gzip=false');
    const zipped = await exported('?gzip=true');
    expect([plain.headers['content-type'], zipped.headers['content-type']]).toEqual([
      'application/octet-stream',
      'application/gzip',
    ]);
    expect(zipped.headers['content-disposition']).toBe('attachment; filename="no_20such_20model_20here~gw-0_1.nrj.gz"');
    expect(gunzipSync(zipped.rawPayload).equals(plain.rawPayload)).toBe(true);
    const [header = ''] = plain.body.split('\n', 1);
    // Its worker is gone, and could not say so.
    expect(JSON.parse(header)).toMatchObject({
      format: 'nereid-journal',
      model: 'no such model here',
      steps: 3,
      state: 'lost',
    });
  });

  it.each([
    ['as it is', (bytes: Buffer) => bytes, {}],
    ['gzipped', (bytes: Buffer) => gzipSync(bytes), {}],
    ['gzipped on its way', (bytes: Buffer) => gzipSync(bytes), { 'content-encoding': 'gzip' }],
    [
      'gzipped, and that once more on its way',
      (bytes: Buffer) => gzipSync(gzipSync(bytes)),
      { 'content-encoding': 'gzip' },
    ],
  ] as const)('comes in %s, under an id of its own', async (_, coded, more) => {
    const answer = await imported(coded(file), more);
    expect(answer.statusCode).toBe(201);
    const { id, ...recording } = answer.json();
    expect(id).toMatch(/^no%20such%20model%20here~import-[0-9a-f-]{36}$/);
    expect(answer.headers.location).toBe(`${PATH}/${id}`);
    expect(recording).toMatchObject({ sequence_id: 'é', state: 'lost', steps: 3, imported: true, worker: 'wk-gone' });
    expect(await store.steps(id, 0, 9)).toMatchObject(STEPS);
    const shown = await http.inject({ method: 'GET', url: answer.headers.location as string, headers });
    expect(shown.json()).toMatchObject({
      recording: { id, steps_applied: 3 },
      steps: [{ step: 0 }, { step: 1 }, { step: 2 }],
    });
    const diff = await http.inject({
      method: 'GET',
      url: `${answer.headers.location}/diff?with=${encodeURIComponent(id)}`,
      headers,
    });
    expect(diff.json()).toEqual({ result: 'equal', compared: 3 });
  });

  it.each([
    ['cut', () => file.subarray(0, -20), {}, 400, 'body'],
    [
      'changed',
      () => Buffer.from(file.map((byte, at) => (at === file.length - 2_000 ? byte ^ 1 : byte))),
      {},
      400,
      'body',
    ],
    ['none', () => Buffer.from('{"inputs": []}'), {}, 400, 'body'],
    ['empty', () => Buffer.alloc(0), {}, 400, 'body'],
    ['not what its coding says', () => file, { 'content-encoding': 'gzip' }, 400, 'Content-Encoding'],
    ['of a coding that is not taken', () => file, { 'content-encoding': 'br' }, 501, 'Content-Encoding'],
  ] as const)('does not come in where the file is %s, and nothing is kept', async (_, bytes, more, status, field) => {
    const answer = await imported(bytes(), more);
    expect([answer.statusCode, answer.json().field]).toEqual([status, field]);
    expect(await kept()).toHaveLength(1);
  });

  it('whose client leaves before its end is not kept', async () => {
    const { url } = await http.listen();
    const { socket } = await openConnection(url);
    let read = () => {};
    const begun = new Promise<void>((resolve) => {
      read = resolve;
    });
    const ended = new Promise<unknown>((resolve) => {
      const { put } = store;
      Object.assign(store, {
        put: (...of: Parameters<typeof put>) => {
          read();
          return put(...of).catch((error: unknown) => {
            resolve(error);
            throw error;
          });
        },
      });
    });
    const head = `POST ${PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${file.length}\r\n\r\n`;
    socket.write(Buffer.concat([Buffer.from(head), file.subarray(0, 40_000)]));
    await begun;
    socket.destroy();
    expect(await ended).toMatchObject({ code: 'CANCELLED' });
    expect(await kept()).toHaveLength(1);
    await http.close(100);
  });

  it.each(['?gzip=yes', '?gzip=true&gzip=true'])('does not go out with %s', async (query) => {
    expect((await exported(query)).json()).toMatchObject({ code: 'INVALID_ARG', field: 'gzip' });
  });
});

it('a recording that goes away while it is exported breaks the answer off', async () => {
  const { steps } = store;
  Object.assign(store, {
    steps: async (id: string, from: number, limit: number) =>
      from === 0 ? (await steps(id, 0, limit)).slice(0, 1) : [],
  });
  const { url } = await http.listen();
  const whole = fetch(`${url}${PATH}/${ID}/export`).then((answer) => answer.arrayBuffer());
  await expect(whole).rejects.toThrow();
  await http.close(100);
});

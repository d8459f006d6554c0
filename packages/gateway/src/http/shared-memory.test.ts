import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBytesInFlight } from '@nereid/caller';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { echo, identity, modelRecord, SIMPLE } from '../gateway-fixture.ts';
import { createSharedMemory, type SharedMemory } from '../shared-memory.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';

const MODELS = [modelRecord(SIMPLE), modelRecord(identity('text', 'STRING')), modelRecord(identity('halves', 'FP16'))];

let folder: string;
let memory: SharedMemory;
let fixture: HttpFixture;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-shm-'));
  memory = createSharedMemory(true, folder);
  fixture = await httpFixture({ models: MODELS, answer: echo, http: { sharedMemory: memory } });
});
afterEach(() => {
  expect([fixture.gateway.waiting, memory.held]).toEqual([0, 0]);
  memory.close();
  rmSync(folder, { recursive: true });
});

async function ask(method: 'GET' | 'POST', url: string, body?: unknown) {
  const payload = body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) };
  const answer = await fixture.http.inject({ method, url, ...payload });
  expect(answer.headers['content-type']).toBe('application/json');
  return [answer.statusCode, answer.body === '' ? '' : answer.json()];
}

const SYSTEM = '/v2/systemsharedmemory';
const CUDA = '/v2/cudasharedmemory';
const error = (text: unknown) => ({ error: text });
const infer = (body: object, model = 'simple') => ask('POST', `/v2/models/${model}/infer`, body);

function object(name: string, bytes: Uint8Array): void {
  writeFileSync(join(folder, name), bytes);
}

async function register(name: string, key: string, byteSize: number): Promise<void> {
  expect(await ask('POST', `${SYSTEM}/region/${name}/register`, { key, byte_size: byteSize })).toEqual([200, '']);
}

describe('system regions', () => {
  beforeEach(() => object('a', new Uint8Array(16)));

  it('are registered, shown and unregistered', async () => {
    await register('r', '/a', 16);
    const at = { key: 'a', offset: 8, byte_size: 8 };
    expect(await ask('POST', `${SYSTEM}/region/p/register`, at)).toEqual([200, '']);
    const [p, r] = [
      { name: 'p', ...at },
      { name: 'r', key: '/a', offset: 0, byte_size: 16 },
    ];
    expect(await ask('GET', `${SYSTEM}/status`)).toEqual([200, [p, r]]);
    expect(await ask('GET', `${SYSTEM}/region/r/status`)).toEqual([200, [r]]);
    expect(await ask('POST', `${SYSTEM}/region/r/unregister`)).toEqual([200, '']);
    expect(await ask('POST', `${SYSTEM}/region/r/unregister`)).toEqual([200, '']);
    expect(await ask('GET', `${SYSTEM}/region/r/status`)).toEqual([
      404,
      error("Unable to find system shared memory region: 'r'"),
    ]);
    expect(await ask('POST', `${SYSTEM}/unregister`)).toEqual([200, '']);
    expect(await ask('GET', `${SYSTEM}/status`)).toEqual([200, []]);
  });

  it.each<readonly [string, string, unknown, string | RegExp]>([
    ['no region', '', {}, "'region name' is necessary to register system shared memory region"],
    ['no JSON', '/region/r', 'hello', /^failed to parse the request JSON buffer: /],
    ['nothing', '/region/r', '', /^failed to parse the request JSON buffer: /],
    ['a list', '/region/r', [], 'the request body must be a JSON object'],
    ['no key', '/region/r', {}, "Shared memory register request has no 'key' field"],
    ['a size past 64 bits', '/region/r', '{"key":"a","byte_size":99999999999999999999}', /./],
    ['no size', '/region/r', { key: 'a' }, "Shared memory register request has no 'byte_size' field"],
    [
      'a number as key',
      '/region/r',
      { key: 1, byte_size: 1 },
      /^Unable to parse 'key': attempt to access JSON non-string as string$/,
    ],
    [
      'a size that is none',
      '/region/r',
      { key: 'a', byte_size: 1.5 },
      /^Unable to parse 'byte_size': attempt to access JSON non-unsigned/,
    ],
    ['a negative offset', '/region/r', { key: 'a', byte_size: 1, offset: -1 }, /^Unable to parse 'offset': /],
    ['an offset of null', '/region/r', { key: 'a', byte_size: 1, offset: null }, /^Unable to parse 'offset': /],
    ['no such object', '/region/r', { key: '/b', byte_size: 1 }, /^Unable to open shared memory region: '\/b'/],
    [
      'too large a part',
      '/region/r',
      { key: 'a', byte_size: 17 },
      "failed to register shared memory region 'r': invalid args",
    ],
  ])('with %s are refused', async (_what, place, body, message) => {
    const text = typeof message === 'string' ? message : expect.stringMatching(message);
    expect(await ask('POST', `${SYSTEM}${place}/register`, body)).toEqual([400, error(text)]);
  });

  it('of a name that is taken are refused', async () => {
    await register('r', 'a', 4);
    const body = { key: 'a', byte_size: 4 };
    const taken = error("shared memory region 'r' already in manager");
    expect(await ask('POST', `${SYSTEM}/region/r/register`, body)).toEqual([400, taken]);
  });

  it('cannot be registered where that is switched off', async () => {
    const closed = await httpFixture();
    for (const action of ['register', 'unregister']) {
      const payload = JSON.stringify({ key: 'a', byte_size: 4 });
      const answer = await closed.http.inject({ method: 'POST', url: `${SYSTEM}/region/r/${action}`, payload });
      expect([answer.statusCode, answer.json()]).toEqual([
        501,
        error("Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."),
      ]);
    }
  });
});

describe('CUDA regions', () => {
  it('say that they need a GPU', async () => {
    const body = { raw_handle: { b64: 'AAAA' }, device_id: 0, byte_size: 4 };
    const refused = error(
      "failed to register CUDA shared memory region: 'r', GPUs not supported; use system shared memory",
    );
    expect(await ask('POST', `${CUDA}/region/r/register`, body)).toEqual([400, refused]);
    expect((await ask('POST', `${CUDA}/register`, body))[0]).toBe(400);
  });

  it('are never there', async () => {
    expect(await ask('GET', `${CUDA}/status`)).toEqual([200, []]);
    expect(await ask('GET', `${CUDA}/region/r/status`)).toEqual([
      404,
      error("Unable to find cuda shared memory region: 'r'"),
    ]);
    expect(await ask('POST', `${CUDA}/unregister`)).toEqual([200, '']);
    expect(await ask('POST', `${CUDA}/region/r/unregister`)).toEqual([200, '']);
  });
});

describe('an infer request', () => {
  const shared = (region: string, offset: number, byteSize: number) => {
    return { shared_memory_region: region, shared_memory_offset: offset, shared_memory_byte_size: byteSize };
  };
  const input = (name: string, parameters: object, shape = [1, 2], datatype = 'INT32') => {
    return { name, datatype, shape, parameters };
  };
  const both = [input('INPUT0', shared('in', 0, 8)), input('INPUT1', shared('in', 8, 8))];
  const bytesOf = (name: string) => new Int32Array(Uint8Array.from(readFileSync(join(folder, name))).buffer);

  beforeEach(async () => {
    object('in', new Uint8Array(Int32Array.of(1, 2, 3, 4).buffer));
    object('out', new Uint8Array(16));
    await register('in', 'in', 16);
    await register('out', 'out', 16);
  });

  it('reads inputs from regions and puts outputs into them', async () => {
    const outputs = [
      { name: 'OUTPUT0', parameters: shared('out', 8, 8) },
      { name: 'OUTPUT1', parameters: shared('out', 0, 8) },
    ];
    const [status, body] = await infer({ id: 'x', inputs: both, outputs });
    expect([status, body.outputs]).toEqual([
      200,
      [
        { name: 'OUTPUT0', datatype: 'INT32', shape: [1, 2] },
        { name: 'OUTPUT1', datatype: 'INT32', shape: [1, 2] },
      ],
    ]);
    expect([...bytesOf('out')]).toEqual([3, 4, 1, 2]);
  });

  it('may mix regions with JSON and bytes', async () => {
    const outputs = [{ name: 'OUTPUT0' }, { name: 'OUTPUT1', parameters: shared('out', 0, 16) }];
    const inputs = [both[0], { name: 'INPUT1', datatype: 'INT32', shape: [1, 2], data: [7, 8] }];
    const [status, body] = await infer({ inputs, outputs });
    expect([status, body.outputs]).toEqual([
      200,
      [
        { name: 'OUTPUT0', datatype: 'INT32', shape: [1, 2], data: [1, 2] },
        { name: 'OUTPUT1', datatype: 'INT32', shape: [1, 2] },
      ],
    ]);
    expect([...bytesOf('out')].slice(0, 2)).toEqual([7, 8]);
  });

  it('may have texts and halves in regions', async () => {
    object('text', Buffer.from('\x02\0\0\0ab\x03\0\0\0cde'));
    await register('text', 'text', 13);
    const texts = input('INPUT', { shared_memory_region: 'text', shared_memory_byte_size: 13 }, [2], 'BYTES');
    expect((await infer({ inputs: [texts] }, 'text'))[1].outputs).toEqual([
      { name: 'OUTPUT', datatype: 'BYTES', shape: [2], data: ['ab', 'cde'] },
    ]);
    const halves = input('INPUT', shared('in', 2, 6), [3], 'FP16');
    const outputs = [{ name: 'OUTPUT', parameters: shared('out', 0, 6) }];
    expect((await infer({ inputs: [halves], outputs }, 'halves'))[0]).toBe(200);
    expect(readFileSync(join(folder, 'out')).subarray(0, 6)).toEqual(readFileSync(join(folder, 'in')).subarray(2, 8));
  });

  it.each<readonly [string, object, number, string | RegExp]>([
    ['an unknown region', shared('none', 0, 8), 404, "Unable to find shared memory region: 'none'"],
    ['an offset outside', shared('in', 16, 8), 400, "Invalid offset for shared memory region: 'in'"],
    ['a size outside', shared('in', 12, 8), 400, "Invalid offset + byte size for shared memory region: 'in'"],
    ['a size of 64 bits', shared('in', 0, 2 ** 63), 400, /more than 1073741824/],
    [
      'another size than its shape',
      shared('in', 0, 4),
      400,
      "[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model 'simple'. Expected 8, got 4",
    ],
    [
      'no size',
      { shared_memory_region: 'in' },
      400,
      "[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model 'simple'. Expected 8, got 0",
    ],
    ['a region that is no text', { shared_memory_region: 1 }, 400, /^Unable to parse 'shared_memory_region': /],
  ])('with an input of %s is refused', async (_what, parameters, status, message) => {
    const text = typeof message === 'string' ? message : expect.stringMatching(message);
    expect(await infer({ inputs: [input('INPUT0', parameters), both[1]] })).toEqual([status, error(text)]);
  });

  it.each<readonly [string, object, number, string]>([
    ['an unknown region', shared('none', 0, 8), 404, "Unable to find shared memory region: 'none'"],
    ['an offset outside', shared('out', 99, 8), 400, "Invalid offset for shared memory region: 'out'"],
    ['a size outside', shared('out', 0, 17), 400, "Invalid offset + byte size for shared memory region: 'out'"],
    [
      'too small a place',
      shared('out', 0, 4),
      400,
      "shared memory size specified with the request for output 'OUTPUT0' (4 bytes) should be at least 8 bytes to hold the results",
    ],
  ])('with an output of %s is refused', async (_what, parameters, status, message) => {
    const answer = await infer({ inputs: both, outputs: [{ name: 'OUTPUT0', parameters }] });
    expect(answer).toEqual([status, error(message)]);
    expect([...bytesOf('out')]).toEqual([0, 0, 0, 0]);
  });

  it('counts what it reads among the bytes in flight', async () => {
    const bytesInFlight = createBytesInFlight(300);
    const small = await httpFixture({
      answer: echo,
      http: { sharedMemory: memory, bytesInFlight, maxInputBytes: 300 },
    });
    object('large', new Uint8Array(800));
    await register('large', 'large', 800);
    const payload = JSON.stringify({ inputs: [input('INPUT0', shared('large', 0, 800), [100, 2])] });
    const answer = await small.http.inject({ method: 'POST', url: '/v2/models/simple/infer', payload });
    expect([answer.statusCode, answer.json().error]).toEqual([
      503,
      expect.stringContaining('too many bytes in flight'),
    ]);
    expect(bytesInFlight.held).toBe(0);
  });
});

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBytesInFlight } from '@nereid/caller';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { echo } from '../gateway-fixture.ts';
import { createSharedMemory, type SharedMemory } from '../shared-memory.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { ask, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';

const { method } = GRPCInferenceService;
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const ALREADY_EXISTS = 6;
const UNIMPLEMENTED = 12;
const UNAVAILABLE = 14;

const bytesInFlight = createBytesInFlight(100_000);
let folder: string;
let memory: SharedMemory;
let fixture: GrpcFixture;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-shm-'));
  writeFileSync(join(folder, 'in'), new Uint8Array(Int32Array.of(1, 2, 3, 4).buffer));
  writeFileSync(join(folder, 'out'), new Uint8Array(16));
  writeFileSync(join(folder, 'large'), new Uint8Array(200_000));
  memory = createSharedMemory(true, folder);
  fixture = await grpcFixture({ answer: echo, grpc: { sharedMemory: memory, bytesInFlight } });
});
afterEach(async () => {
  await fixture.close();
  expect([memory.held, bytesInFlight.held]).toEqual([0, 0]);
  memory.close();
  rmSync(folder, { recursive: true });
});

const register = (name: string, key: string, byteSize: bigint) =>
  ask(fixture.client(), method.systemSharedMemoryRegister, { name, key, byteSize });
const status = (name = '') => ask(fixture.client(), method.systemSharedMemoryStatus, { name });
const unregister = (name = '') => ask(fixture.client(), method.systemSharedMemoryUnregister, { name });

describe('system regions', () => {
  it('are registered, shown and unregistered', async () => {
    expect(await register('in', '/in', 16n)).toMatchObject({ code: 0 });
    expect(await register('out', 'out', 8n)).toMatchObject({ code: 0 });
    const inRegion = { name: 'in', key: '/in', offset: 0n, byteSize: 16n };
    const outRegion = { name: 'out', key: 'out', offset: 0n, byteSize: 8n };
    expect(await status()).toMatchObject({ code: 0, message: { regions: { in: inRegion, out: outRegion } } });
    expect(await status('in')).toMatchObject({ code: 0, message: { regions: { in: inRegion } } });
    expect(await unregister('in')).toMatchObject({ code: 0 });
    expect(await status('in')).toMatchObject({ code: NOT_FOUND });
    expect(await unregister()).toMatchObject({ code: 0 });
    expect(memory.status('')).toEqual({ ok: true, value: [] });
  });

  it.each<readonly [string, string, string, bigint, number, string]>([
    ['a name that is taken', 'in', 'in', 4n, ALREADY_EXISTS, "shared memory region 'in' already in manager"],
    ['no object', 'x', '/none', 4n, INVALID_ARGUMENT, "Unable to open shared memory region: '/none'"],
    [
      'more than there is',
      'x',
      'in',
      17n,
      INVALID_ARGUMENT,
      "failed to register shared memory region 'x': invalid args",
    ],
    ['64 bits of size', 'x', 'in', 2n ** 64n - 1n, INVALID_ARGUMENT, "region 'x': invalid args"],
    ['no name', '', 'in', 4n, INVALID_ARGUMENT, "'region name' is necessary"],
  ])('with %s are refused', async (_what, name, key, byteSize, code, details) => {
    await register('in', 'in', 16n);
    expect(await register(name, key, byteSize)).toMatchObject({ code, details: expect.stringContaining(details) });
  });

  it('cannot be registered where that is switched off', async () => {
    const closed = await grpcFixture();
    const asked = await ask(closed.client(), method.systemSharedMemoryRegister, { name: 'r', key: 'in', byteSize: 4n });
    expect(asked).toMatchObject({ code: UNIMPLEMENTED, details: expect.stringContaining('--allow-client-shm=true') });
    await closed.close();
  });
});

it('CUDA regions need a GPU and are never there', async () => {
  const client = fixture.client();
  const region = { name: 'r', rawHandle: new Uint8Array(64), byteSize: 4n };
  expect(await ask(client, method.cudaSharedMemoryRegister, region)).toMatchObject({ code: INVALID_ARGUMENT });
  expect(await ask(client, method.cudaSharedMemoryStatus, {})).toMatchObject({ code: 0, message: { regions: {} } });
  expect(await ask(client, method.cudaSharedMemoryStatus, { name: 'r' })).toMatchObject({ code: NOT_FOUND });
  expect(await ask(client, method.cudaSharedMemoryUnregister, {})).toMatchObject({ code: 0 });
});

describe('ModelInfer', () => {
  const string = (value: string) => ({ parameterChoice: { case: 'stringParam' as const, value } });
  const int64 = (value: bigint) => ({ parameterChoice: { case: 'int64Param' as const, value } });
  const place = (region: string, offset: bigint, byteSize: bigint) => ({
    shared_memory_region: string(region),
    shared_memory_offset: int64(offset),
    shared_memory_byte_size: int64(byteSize),
  });
  const infer = (inputs: readonly object[], outputs: readonly object[] = [], raw: Uint8Array[] = []) =>
    ask(fixture.client(), method.modelInfer, {
      modelName: 'simple',
      inputs: ['INPUT0', 'INPUT1'].map((name, index) => {
        return { name, datatype: 'INT32', shape: [1n, 2n], parameters: { ...inputs[index] } };
      }),
      outputs: outputs.map((parameters, index) => ({ name: `OUTPUT${index}`, parameters: { ...parameters } })),
      rawInputContents: raw,
    });

  beforeEach(async () => {
    await register('in', 'in', 16n);
    await register('out', 'out', 16n);
    await register('large', 'large', 200_000n);
  });

  it('reads inputs from regions and puts outputs into them; others go with the message', async () => {
    const raw = new Uint8Array(Int32Array.of(8, 9).buffer);
    const asked = await infer([place('in', 8n, 8n), {}], [place('out', 8n, 8n), {}], [raw]);
    expect(asked).toMatchObject({
      code: 0,
      message: {
        outputs: [{ name: 'OUTPUT0' }, { name: 'OUTPUT1' }],
        rawOutputContents: [Buffer.alloc(0), Buffer.from(raw)],
      },
    });
    expect([...new Int32Array(Uint8Array.from(readFileSync(join(folder, 'out'))).buffer)]).toEqual([0, 0, 3, 4]);
  });

  it.each<readonly [string, object, object, number, string]>([
    [
      'an unknown region of an input',
      place('none', 0n, 8n),
      {},
      NOT_FOUND,
      "Unable to find shared memory region: 'none'",
    ],
    ['an unknown region of an output', place('in', 0n, 8n), place('none', 0n, 8n), NOT_FOUND, "region: 'none'"],
    ['a place outside', place('in', 12n, 8n), {}, INVALID_ARGUMENT, 'Invalid offset + byte size'],
    ['too small a place', place('in', 0n, 8n), place('out', 0n, 4n), INVALID_ARGUMENT, 'should be at least 8 bytes'],
    ['more than may be in flight', place('large', 0n, 200_000n), {}, UNAVAILABLE, 'too many bytes in flight'],
  ])('refuses %s', async (_what, input, output, code, details) => {
    const asked = await infer([input, place('in', 8n, 8n)], [output]);
    expect(asked).toMatchObject({ code, details: expect.stringContaining(details) });
  });
});

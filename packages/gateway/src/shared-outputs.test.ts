import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { InferResponse, RequestedOutput } from '@nereid/protocol';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createSharedMemory, type SharedMemory } from './shared-memory.ts';
import { holdSharedOutputs } from './shared-outputs.ts';

let folder: string;
let memory: SharedMemory;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-shm-'));
  writeFileSync(join(folder, 'a'), Buffer.alloc(16));
  memory = createSharedMemory(true, folder);
  memory.register({ name: 'r', key: 'a', offset: 0, byteSize: 16 });
});
afterEach(() => {
  expect(memory.held).toBe(0);
  memory.close();
  rmSync(folder, { recursive: true });
});

const plain = (name: string): RequestedOutput => ({ name, binary: false, classification: 0 });
const placed = (name: string, offset: number, byteSize: number, region = 'r'): RequestedOutput => {
  return { ...plain(name), sharedMemory: { region, offset, byteSize } };
};
const tensor = (name: string, ...bytes: number[]) => {
  return { name, datatype: 'UINT8' as const, shape: [bytes.length], data: Uint8Array.from(bytes) };
};
const response = (...outputs: InferResponse['outputs']): InferResponse => {
  return { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs };
};

function hold(...outputs: readonly RequestedOutput[]) {
  const held = holdSharedOutputs(memory, outputs);
  if (!held.ok || held.value === undefined) throw new Error('nothing is held');
  return held.value;
}

it('nothing is held where no output asks for it', () => {
  expect(holdSharedOutputs(memory, [plain('A')])).toEqual({ ok: true, value: undefined });
});

it('outputs go to their places, each answer anew; the others stay as they are', () => {
  const held = hold(placed('A', 4, 2), plain('B'), placed('C', 6, 4));
  for (const first of [1, 9]) {
    const outcome = held.place(response(tensor('A', first, 2), tensor('B', 3), tensor('C', 4)));
    expect(outcome).toMatchObject({
      ok: true,
      response: {
        modelName: 'm',
        outputs: [{ name: 'A', shape: [2], data: new Uint8Array(0) }, tensor('B', 3), { data: new Uint8Array(0) }],
      },
    });
    expect([...readFileSync(join(folder, 'a')).subarray(3, 9)]).toEqual([0, first, 2, 4, 0, 0]);
  }
  held.release();
  held.release();
});

it('of an output that is listed twice the first entry counts', () => {
  expect(holdSharedOutputs(memory, [plain('A'), placed('A', 0, 4)])).toMatchObject({ ok: true });
  expect(memory.held).toBe(0);
  const held = hold(placed('A', 0, 4), placed('A', 8, 4), plain('A'));
  held.place(response(tensor('A', 7)));
  expect([...readFileSync(join(folder, 'a'))].map(Boolean).indexOf(true)).toBe(0);
  held.release();
});

it('an output larger than its place fails, and its neighbours in the region keep their bytes', () => {
  const held = hold(placed('A', 0, 2));
  expect(held.place(response(tensor('A', 1, 2, 3)))).toEqual({
    ok: false,
    error: {
      code: 'INVALID_ARG',
      message:
        "shared memory size specified with the request for output 'A' (2 bytes) should be at least 3 bytes to hold the results",
      field: 'outputs.parameters.shared_memory_byte_size',
    },
  });
  expect([...readFileSync(join(folder, 'a'))]).toEqual(new Array(16).fill(0));
  held.release();
});

it('where one place cannot be had none is held', () => {
  expect(holdSharedOutputs(memory, [placed('A', 0, 4), placed('B', 0, 4, 'none')])).toEqual({
    ok: false,
    error: {
      code: 'NOT_FOUND',
      message: "Unable to find shared memory region: 'none'",
      field: 'outputs[1].parameters.shared_memory_region',
    },
  });
});

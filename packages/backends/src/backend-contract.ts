/** What every backend must do, whatever it is made of. Each backend's tests run it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  bytesElements,
  bytesOf,
  encodeBytesElements,
  type InferRequest,
  type Outcome,
  REQUEST_DEFAULTS,
  type Tensor,
} from '@nereid/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Backend, BackendInstance, BatchRequest, InstanceLoad } from './backend.ts';

export interface BackendContract {
  readonly backend: Backend;
  /** INT32 INPUT0, INPUT1 [16], max_batch_size 8 → OUTPUT0 the sum, OUTPUT1 the difference. */
  readonly simple: () => Promise<InstanceLoad>;
  /** BYTES INPUT [-1] → OUTPUT, max_batch_size 4. */
  readonly bytes: () => Promise<InstanceLoad>;
  /** INT32 INPUT [-1] → OUTPUT [3]: fails with INTERNAL unless INPUT has 3 elements. */
  readonly failing: () => Promise<InstanceLoad>;
}

export function describeBackendContract({ backend, simple, bytes, failing }: BackendContract): void {
  describe(`the backend contract: ${backend.name}`, () => {
    let instance: BackendInstance;
    beforeAll(async () => {
      instance = await backend.load(await simple());
    });
    afterAll(() => instance.finalize());

    it('answers one request with all outputs', async () => {
      const [outcome] = await runBatch(instance, [addRequest('a', [1])]);
      expect(outputsOf(outcome)).toEqual({ OUTPUT0: ['INT32', [1, 16], 101], OUTPUT1: ['INT32', [1, 16], -99] });
    });

    it('gives each request of a batch its own rows', async () => {
      const outcomes = await runBatch(instance, [addRequest('a', [1]), addRequest('b', [2, 3]), addRequest('c', [4])]);
      expect(outcomes.map((outcome) => outputsOf(outcome).OUTPUT0)).toEqual([
        ['INT32', [1, 16], 101],
        ['INT32', [2, 16], 102],
        ['INT32', [1, 16], 104],
      ]);
    });

    it('passes BYTES of any length, also none and no elements', async () => {
      const texts = await backend.load(await bytes());
      try {
        for (const elements of [['', 'a', 'naïve ✓', '\uFEFFbom'], []]) {
          const [outcome] = await runBatch(texts, [textRequest(elements)]);
          const output = tensorsOf(outcome)[0];
          expect(output?.shape).toEqual([1, elements.length]);
          expect(
            bytesElements(output?.data ?? new Uint8Array(), 'OUTPUT').map((element) => Buffer.from(element).toString()),
          ).toEqual(elements);
        }
      } finally {
        await texts.finalize();
      }
    });

    it('fails an execution with INTERNAL and goes on', async () => {
      const load = await backend.load(await failing());
      try {
        await expect(runBatch(load, [failingRequest(2)])).rejects.toMatchObject({ code: 'INTERNAL' });
        const [outcome] = await runBatch(load, [failingRequest(3)]);
        expect(outcome).toMatchObject({ ok: true });
      } finally {
        await load.finalize();
      }
    });

    it('says which file is missing', async () => {
      const empty = await mkdtemp(join(tmpdir(), 'nereid-empty-'));
      try {
        const load = { ...(await simple()), versionDirectory: empty };
        await expect(backend.load(load)).rejects.toMatchObject({
          code: 'UNAVAILABLE',
          message: expect.stringContaining(empty),
        });
      } finally {
        await rm(empty, { recursive: true });
      }
    });
  });
}

/** A request without any of the optional parts. */
export function inferRequest(inputs: readonly Tensor[], more: Partial<InferRequest> = {}): InferRequest {
  return {
    ...REQUEST_DEFAULTS,
    modelName: 'm',
    modelVersion: '1',
    inputs,
    ...more,
  };
}

/** Runs requests as one batch (batching models: all rows joined) and gives each its outcome. */
export async function runBatch(instance: BackendInstance, requests: readonly InferRequest[]): Promise<Outcome[]> {
  const rows = requests.map((request) => (requests.length === 1 ? 1 : (request.inputs[0]?.shape[0] ?? 1)));
  const first = requests[0]?.inputs ?? [];
  const joined = first.map((input, index) => {
    const parts = requests.map((request) => request.inputs[index] ?? input);
    const rowCount = parts.reduce((sum, part) => sum + (part.shape[0] ?? 1), 0);
    const shape = requests.length === 1 ? input.shape : [rowCount, ...input.shape.slice(1)];
    return { ...input, shape, data: Buffer.concat(parts.map((part) => part.data)) };
  });
  const entries: BatchRequest[] = requests.map((request) => ({ request, signal: new AbortController().signal }));
  const result = await instance.execute({
    requests: instance.needsRequests ? entries : [],
    rows,
    joined,
    wantedOutputs: [...new Set(requests.flatMap((request) => request.requestedOutputs))],
  });
  if (result.kind === 'each') {
    return result.outcomes.map((outcome) => {
      if (Symbol.asyncIterator in outcome) throw new Error('a stream where an outcome was expected');
      return outcome;
    });
  }
  return requests.map((request, index) => {
    const before = rows.slice(0, index).reduce((sum, count) => sum + count, 0);
    const outputs = result.outputs.map((output) => {
      if (requests.length === 1) return output;
      const rowBytes = output.data.byteLength / (output.shape[0] ?? 1);
      const count = rows[index] ?? 0;
      const data = output.data.subarray(before * rowBytes, (before + count) * rowBytes);
      return { ...output, shape: [count, ...output.shape.slice(1)], data };
    });
    const { modelName, modelVersion, id } = request;
    return { ok: true, response: { modelName, modelVersion, id, parameters: {}, outputs } };
  });
}

export function int32Tensor(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: 'INT32', shape, data: bytesOf(Int32Array.from(values)) };
}

/** Per output: datatype, shape and first element as INT32. */
function outputsOf(outcome: Outcome | undefined): Record<string, unknown> {
  const first = (data: Uint8Array) => Buffer.from(data).readInt32LE(0);
  return Object.fromEntries(
    tensorsOf(outcome).map((output) => [output.name, [output.datatype, [...output.shape], first(output.data)]]),
  );
}

export function tensorsOf(outcome: Outcome | undefined): readonly Tensor[] {
  if (outcome?.ok !== true) throw new Error(`no response: ${JSON.stringify(outcome?.error)}`);
  return outcome.response.outputs;
}

function addRequest(id: string, values: readonly number[]): InferRequest {
  const shape = [values.length, 16];
  const filled = values.flatMap((value) => new Array<number>(16).fill(value));
  return inferRequest(
    [
      int32Tensor('INPUT0', shape, filled),
      int32Tensor(
        'INPUT1',
        shape,
        filled.map(() => 100),
      ),
    ],
    { id },
  );
}

function textRequest(texts: readonly string[]): InferRequest {
  const data = encodeBytesElements(texts);
  return inferRequest([{ name: 'INPUT', datatype: 'BYTES', shape: [1, texts.length], data }]);
}

function failingRequest(count: number): InferRequest {
  return inferRequest([int32Tensor('INPUT', [count], new Array<number>(count).fill(7))]);
}

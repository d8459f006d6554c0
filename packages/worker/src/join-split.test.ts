import type { JoinedTensor } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import { DATATYPE_BYTES, type Datatype, type InferRequest, type Tensor } from '@nereid/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openBatch, packBatch } from './batch-frame.ts';
import { selectOutputs, splitJoined, splitRows, splitTensor } from './join-split.ts';
import { openResult, PACKED_BYTES_MAX, packResult } from './result-frame.ts';

const DATATYPES = Object.keys(DATATYPE_BYTES) as Datatype[];
const TIMING = { waitNs: 1, inputNs: 2, inferNs: 3, outputNs: 4 };

interface Plan {
  /** Per input: datatype and dimensions behind the first. */
  readonly inputs: readonly {
    readonly datatype: Datatype;
    readonly rest: readonly number[];
    readonly ragged: boolean;
  }[];
  readonly rows: readonly number[];
  readonly seed: number;
}

const plans: fc.Arbitrary<Plan> = fc.record({
  inputs: fc.array(
    fc.record({
      datatype: fc.constantFrom(...DATATYPES),
      rest: fc.array(fc.nat({ max: 3 }), { maxLength: 3 }),
      ragged: fc.boolean(),
    }),
    { minLength: 1, maxLength: 4 },
  ),
  rows: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 }),
  seed: fc.nat(),
});

/** Bytes that differ from place to place, on an address that is not aligned. */
function tensorData(datatype: Datatype, count: number, salt: number): Uint8Array {
  const size = DATATYPE_BYTES[datatype];
  const bytes: number[] = [0xee];
  for (let i = 0; i < count; i++) {
    const length = size === 0 ? (salt * 7 + i) % 5 : size;
    if (size === 0) bytes.push(length, 0, 0, 0);
    for (let j = 0; j < length; j++) bytes.push((salt * 31 + i * 7 + j) % 256);
  }
  return Uint8Array.from(bytes).subarray(1);
}

function requestsOf(plan: Plan): { readonly signature: ModelSignature; readonly requests: readonly InferRequest[] } {
  const tensors = plan.inputs.map(({ datatype, rest, ragged }, index) => ({
    name: `T${index}`,
    datatype,
    dims: rest,
    reshape: null,
    optional: false,
    ragged,
  }));
  const signature = {
    name: 'm',
    maxBatchSize: 64,
    inputs: tensors,
    outputs: tensors,
    batchInputs: [],
    batchOutputs: [],
    decoupled: false,
  };
  const requests = plan.rows.map((rows, r) =>
    inferRequest(
      plan.inputs.map(({ datatype, rest, ragged }, index) => {
        const shape = [rows, ...(ragged ? rest.map((dim, axis) => (dim + r + axis) % 4) : rest)];
        const count = shape.reduce((product, dim) => product * dim, 1);
        return { name: `T${index}`, datatype, shape, data: tensorData(datatype, count, plan.seed + r * 13 + index) };
      }),
    ),
  );
  return { signature, requests };
}

function inferRequest(inputs: readonly Tensor[], requestedOutputs: readonly string[] = []): InferRequest {
  return {
    modelName: 'm',
    modelVersion: '',
    id: '',
    correlationId: 0n,
    sequenceStart: false,
    sequenceEnd: false,
    priority: 0n,
    timeoutUs: 0n,
    parameters: {},
    inputs,
    requestedOutputs,
  };
}

/** Larger than asked for and not clear, as one that is used again may be. */
const fresh = (bytes: number) => new Uint8Array(bytes + 24).fill(0xaa).buffer;

const plain = (tensor: Tensor) => ({
  ...tensor,
  shape: [...tensor.shape],
  data: Buffer.from(tensor.data).toString('hex'),
});
const fp32 = (name: string, shape: readonly number[], fill = 0): Tensor => ({
  name,
  datatype: 'FP32',
  shape,
  data: new Uint8Array(4 * shape.reduce((product, dim) => product * dim, 1)).fill(fill),
});
const signatureOf = (maxBatchSize: number, ...names: string[]): ModelSignature => {
  const tensors = names.map((name) => ({
    name,
    datatype: 'FP32' as const,
    dims: [-1],
    reshape: null,
    optional: false,
    ragged: false,
  }));
  return {
    name: 'm',
    maxBatchSize,
    inputs: tensors,
    outputs: tensors,
    batchInputs: [],
    batchOutputs: [],
    decoupled: false,
  };
};

describe('joining and splitting', () => {
  it('gives each request its tensors back, aligned, whatever the datatypes and shapes', () => {
    fc.assert(
      fc.property(plans, (plan) => {
        const { signature, requests } = requestsOf(plan);
        const opened = openBatch(signature, packBatch(signature, requests, 5, 6, fresh));
        expect(opened).toMatchObject({ sequence: 5, receivedNs: 6, rows: plan.rows, wantedOutputs: [] });
        for (const [index, joined] of opened.joined.entries()) {
          expect(joined.data.byteOffset % 8).toBe(0);
          const own = requests.flatMap((request) => request.inputs.slice(index, index + 1)).map(plain);
          expect(splitTensor(joined, opened.rows).map(plain)).toEqual(own);
          const apart = splitJoined(joined, opened.rows);
          expect(apart.flatMap((part, r) => splitTensor(part, opened.rows.slice(r, r + 1))).map(plain)).toEqual(own);
        }
      }),
    );
  });

  it('carries outputs there and back, packed or apart', () => {
    fc.assert(
      fc.property(plans, fc.boolean(), fc.boolean(), (plan, large, giveAway) => {
        const { signature, requests } = requestsOf(plan);
        const joined = openBatch(signature, packBatch(signature, requests, 1, 1, fresh)).joined;
        const small = joined.map((tensor) => ({ ...tensor, data: tensor.data.slice() }));
        const big: JoinedTensor = {
          name: 'T0',
          datatype: 'UINT8',
          shape: [PACKED_BYTES_MAX + 1],
          data: new Uint8Array(PACKED_BYTES_MAX + 1).fill(9),
        };
        const outputs = large ? [...small, big] : small;
        const seen = ({ name, shape, shapes, data }: JoinedTensor) => ({
          name,
          shape: [...shape],
          shapes,
          data: Buffer.from(data).toString('hex'),
        });
        const before = outputs.map(seen);
        const { frame, others } = packResult(signature, 3, TIMING, outputs, giveAway);
        expect(others.length).toBe(large ? outputs.length : 0);
        const opened = openResult(signature, frame, others);
        expect(opened.sequence).toBe(3);
        expect(opened.timing).toEqual(TIMING);
        expect(opened.outputs.map(seen)).toEqual(before);
      }),
    );
  });

  it.each([
    ['a scalar', fp32('X', []), [1]],
    ['too few rows', fp32('X', [2, 3]), [1, 2]],
    [
      'BYTES that end early',
      { ...fp32('X', [2, 1]), datatype: 'BYTES' as const, data: Uint8Array.of(9, 0, 0, 0, 1) },
      [1, 1],
    ],
  ])('splitting %s is INTERNAL', (_, tensor, rows) => {
    expect(() => splitRows(tensor, rows)).toThrowError(expect.objectContaining({ code: 'INTERNAL' }));
  });

  it.each([
    [
      'more elements than the requests have',
      [
        [1, 2],
        [1, 4],
      ],
    ],
    [
      'fewer',
      [
        [1, 2],
        [1, 1],
      ],
    ],
  ])('splitting %s by shapes is INTERNAL', (_, shapes) => {
    expect(() => splitTensor({ ...fp32('X', [5]), shapes }, [1, 1])).toThrowError(
      expect.objectContaining({ code: 'INTERNAL' }),
    );
  });

  it.each([
    ['other dimensions', [fp32('A', [1, 2])], [fp32('A', [1, 3])], 8],
    ['another rank', [fp32('A', [1, 2])], [fp32('A', [1, 2, 1])], 8],
    ['an input that the first has not', [], [fp32('A', [1, 2])], 8],
    ['several requests where the model does not batch', [fp32('A', [2])], [fp32('A', [2])], 0],
  ])('joining %s is INTERNAL', (_, first, second, maxBatchSize) => {
    const requests = [inferRequest(first), inferRequest(second)];
    expect(() => packBatch(signatureOf(maxBatchSize, 'A'), requests, 1, 1, fresh)).toThrowError(
      expect.objectContaining({ code: 'INTERNAL' }),
    );
  });

  it.each([
    [[['B'], ['B']], ['B']],
    [
      [['B'], ['A']],
      ['A', 'B'],
    ],
    [[['B'], []], []],
  ])('wanted by %j are %j', (requested, wanted) => {
    const requests = requested.map((names) => inferRequest([fp32('A', [1, 1])], names));
    const signature = signatureOf(8, 'A', 'B');
    expect(openBatch(signature, packBatch(signature, requests, 1, 1, fresh)).wantedOutputs).toEqual(wanted);
  });

  it.each([
    [[], ['A', 'B']],
    [
      ['B', 'A'],
      ['A', 'B'],
    ],
    [['B'], ['B']],
  ])(
    'a request for %j gets %j, in the order of the config, of what the model gave in any order',
    (requested, names) => {
      const outputs = [fp32('B', [1]), fp32('A', [1])];
      expect(selectOutputs(signatureOf(0, 'A', 'B'), requested, outputs).map(({ name }) => name)).toEqual(names);
    },
  );

  it('does not send one buffer twice', () => {
    const shared = new Uint8Array(PACKED_BYTES_MAX + 8);
    const outputs = ['A', 'B'].map(
      (name): Tensor => ({ name, datatype: 'FP32', shape: [shared.length / 4], data: shared }),
    );
    const { others } = packResult(signatureOf(0, 'A', 'B'), 1, TIMING, outputs, true);
    expect(new Set(others).size).toBe(2);
    expect(others[0]).toBe(shared.buffer);
  });
});

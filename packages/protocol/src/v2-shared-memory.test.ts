import { describe, expect, it } from 'vitest';
import { NereidError } from './error.ts';
import type { InferResponse } from './infer.ts';
import { decodeInferRequest } from './v2-request.ts';
import { encodeInferResponse } from './v2-response.ts';
import { type ReadSharedMemory, unknownRegion } from './v2-shared-memory.ts';

const LIMITS = { json_depth_max: 100, elements_max: 1_000, bytes_max: 10_000 };

type Asked = readonly [region: string, offset: number, byteSize: number, field: string];

function decode(json: object, raw = new Uint8Array(0)) {
  const asked: Asked[] = [];
  const readSharedMemory: ReadSharedMemory = (...place) => {
    asked.push(place);
    if (place[0] === 'none') throw unknownRegion(place[0], place[3]);
    return new Uint8Array(8).fill(asked.length);
  };
  const header = Buffer.from(JSON.stringify(json));
  const options = {
    modelName: 'm',
    modelVersion: '',
    headerLength: header.byteLength,
    limits: LIMITS,
    readSharedMemory,
  };
  try {
    return { asked, decoded: decodeInferRequest(Buffer.concat([header, raw]), options) };
  } catch (error) {
    if (error instanceof NereidError) return { asked, error };
    throw error;
  }
}

const shared = (name: string, parameters: object) => ({ name, datatype: 'FP16', shape: [4], parameters });
const place = (region: string, byteSize: unknown, offset?: unknown) => {
  return { shared_memory_region: region, shared_memory_byte_size: byteSize, shared_memory_offset: offset };
};

describe('inputs', () => {
  it('in shared memory are read, the others stand where they did', () => {
    const binary = { name: 'B', datatype: 'UINT8', shape: [3], parameters: { binary_data_size: 3 } };
    const inputs = [shared('A', place('r', 8, 16)), binary, shared('C', place('s', 8))];
    const { asked, decoded } = decode({ inputs }, Uint8Array.of(7, 8, 9));
    expect(asked).toEqual([
      ['r', 16, 8, 'inputs[0]'],
      ['s', 0, 8, 'inputs[2]'],
    ]);
    expect(decoded?.request.inputs.map(({ name, data }) => [name, [...data]])).toEqual([
      ['A', new Array(8).fill(1)],
      ['B', [7, 8, 9]],
      ['C', new Array(8).fill(2)],
    ]);
  });

  it('without a size take none', () => {
    expect(decode({ inputs: [shared('A', { shared_memory_region: 'r' })] }).asked).toEqual([['r', 0, 0, 'inputs[0]']]);
  });

  it.each<readonly [string, object, object]>([
    ['an unknown region', place('none', 8), { code: 'NOT_FOUND', field: 'inputs[0].parameters.shared_memory_region' }],
    [
      'a size that is none',
      place('r', -1),
      { code: 'INVALID_ARG', field: 'inputs[0].parameters.shared_memory_byte_size' },
    ],
    [
      'an offset that is none',
      place('r', 8, 'x'),
      { code: 'INVALID_ARG', field: 'inputs[0].parameters.shared_memory_offset' },
    ],
    [
      'more than one request may take',
      place('r', 1_073_741_825),
      { code: 'INVALID_ARG', field: 'inputs[0].parameters.shared_memory_byte_size' },
    ],
  ])('with %s are refused', (_what, parameters, expected) => {
    expect(decode({ inputs: [shared('A', parameters)] }).error).toMatchObject(expected);
  });

  it('that name one region again and again are bounded together', () => {
    const { asked, error } = decode({ inputs: Array.from({ length: 5 }, () => shared('A', place('r', 300_000_000))) });
    expect([asked.length, error?.message]).toEqual([
      3,
      expect.stringMatching(/take 1200000000 bytes .* more than 1073741824/),
    ]);
  });
});

describe('outputs', () => {
  const output = { name: 'Y', parameters: place('r', 8, 2) };

  it('in shared memory tell their place', () => {
    expect(decode({ inputs: [], outputs: [output, { name: 'Z' }] }).decoded?.outputs).toEqual([
      { name: 'Y', binary: false, classification: 0, sharedMemory: { region: 'r', offset: 2, byteSize: 8 } },
      { name: 'Z', binary: false, classification: 0 },
    ]);
  });

  it('in shared memory are named in the answer without data', () => {
    const data = new Uint8Array(0);
    const response: InferResponse = {
      modelName: 'm',
      modelVersion: '1',
      id: '',
      parameters: {},
      outputs: [
        { name: 'Y', datatype: 'FP16', shape: [4], data },
        { name: 'X', datatype: 'UINT8', shape: [1], data: Uint8Array.of(5) },
      ],
    };
    const sharedMemory = { region: 'r', offset: 2, byteSize: 8 };
    const formats = [
      { name: 'Y', binary: false, sharedMemory },
      { name: 'X', binary: true },
    ];
    const { parts, headerLength } = encodeInferResponse(response, formats);
    expect(JSON.parse(Buffer.from(parts[0] ?? []).toString()).outputs).toEqual([
      { name: 'Y', datatype: 'FP16', shape: [4] },
      { name: 'X', datatype: 'UINT8', shape: [1], parameters: { binary_data_size: 1 } },
    ]);
    expect([parts.length, headerLength]).toEqual([2, parts[0]?.byteLength]);
  });
});

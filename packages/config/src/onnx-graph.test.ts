import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIXTURES } from './fixture-models.ts';
import { readOnnxBytes, readOnnxFile } from './onnx-graph.ts';
import { fileAccess, type RandomAccess, skimMessage } from './protobuf-skim.ts';

/** Protobuf wire format by hand: a varint, and a length-delimited field. */
function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) | 0x80, ...varint(Math.floor(value / 0x80))];
}
function bytes(number: number, content: readonly number[] | string): number[] {
  const body = typeof content === 'string' ? [...Buffer.from(content)] : content;
  return [...varint(number * 8 + 2), ...varint(body.length), ...body];
}
function int(number: number, value: number): number[] {
  return [...varint(number * 8), ...varint(value)];
}
const MINUS_ONE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
const fixed = (size: number) => bytes(1, int(1, size));
const symbol = (name: string) => bytes(1, bytes(2, name));
const value = (name: string, elementType: number, shape?: number[]) => [
  ...bytes(1, name),
  ...bytes(2, bytes(1, [...int(1, elementType), ...(shape === undefined ? [] : bytes(2, shape))])),
];
const model = (...graph: number[][]) => Uint8Array.from(bytes(7, graph.flat()));

describe('real files', () => {
  test.each([
    ['add_sub', ['INPUT0', 'INPUT1'], [], ['OUTPUT0', 'OUTPUT1'], [[4], [4]], 1],
    [
      'simple',
      ['INPUT0', 'INPUT1'],
      [],
      ['OUTPUT0', 'OUTPUT1'],
      [
        [-1, 16],
        [-1, 16],
      ],
      6,
    ],
    ['optional_inputs', ['INPUT0'], ['INPUT1'], ['OUTPUT'], [[4]], 6],
    ['classifier', ['SCORES'], [], ['LABELLED', 'UNLABELLED'], [[-1, 4]], 1],
    ['reshaped', ['INPUT0', 'INPUT1'], [], ['OUTPUT0', 'OUTPUT1', 'SEEN'], [[-1, 4], [-1]], 1],
  ])('%s', (name, inputs, optional, outputs, dims, elementType) => {
    const graph = readOnnxFile(join(FIXTURES, name, '1', 'model.onnx'));
    expect(graph.inputs.map((input) => input.name)).toEqual(inputs);
    expect(graph.optionalInputs.map((input) => input.name)).toEqual(optional);
    expect(graph.outputs.map((output) => output.name)).toEqual(outputs);
    expect(graph.inputs.map((input) => input.dims)).toEqual(dims);
    expect(graph.inputs.map((input) => input.elementType)).toEqual(dims.map(() => elementType));
    expect(graph.opsets).toEqual({ '': 17 });
  });
});

describe('built models', () => {
  test('dimensions: fixed, symbolic, unknown, negative and no shape at all', () => {
    const shape = [...fixed(300), ...symbol('batch'), ...bytes(1, []), ...bytes(1, [8, ...MINUS_ONE])];
    const graph = readOnnxBytes(
      model(bytes(2, 'g'), bytes(11, value('A', 1, shape)), bytes(12, value('B', 7)), bytes(12, value('C', 7, []))),
      'm.onnx',
    );
    expect(graph.name).toBe('g');
    expect(graph.inputs).toEqual([
      { name: 'A', elementType: 1, dims: [300, -1, -1, -1], symbols: ['', 'batch', '', ''] },
    ]);
    expect(graph.outputs.map((output) => output.dims)).toEqual([null, []]);
  });

  test('a value that is no tensor has element type 0', () => {
    const sequence = [...bytes(1, 'S'), ...bytes(2, bytes(4, []))];
    expect(readOnnxBytes(model(bytes(12, sequence)), 'm').outputs[0]).toMatchObject({ name: 'S', elementType: 0 });
  });

  test('inputs with an initializer, also a sparse one, are optional', () => {
    const graph = readOnnxBytes(
      model(
        bytes(5, [...int(2, 1), ...bytes(8, 'W'), ...bytes(9, 'data')]),
        bytes(15, [...bytes(2, []), ...bytes(1, bytes(8, 'V'))]),
        bytes(11, value('W', 1, fixed(1))),
        bytes(11, value('X', 1, fixed(1))),
        bytes(11, value('V', 1, fixed(1))),
      ),
      'm',
    );
    expect(graph.inputs.map((input) => input.name)).toEqual(['X']);
    expect(graph.optionalInputs.map((input) => input.name)).toEqual(['W', 'V']);
  });

  test('operator sets and metadata', () => {
    const file = Uint8Array.from([
      ...int(1, 8),
      ...bytes(8, int(2, 17)),
      ...bytes(8, [...bytes(1, 'ai.onnx.ml'), ...int(2, 3)]),
      ...bytes(14, [...bytes(1, 'author'), ...bytes(2, 'someone')]),
      ...bytes(7, []),
    ]);
    const graph = readOnnxBytes(file, 'm');
    expect(graph.opsets).toEqual({ '': 17, 'ai.onnx.ml': 3 });
    expect(graph.metadata).toEqual({ author: 'someone' });
  });

  test('fields and wire types that it does not know are skipped', () => {
    const later = [
      ...bytes(99, 'x'),
      ...varint(98 * 8 + 1),
      ...Array<number>(8).fill(1),
      ...varint(97 * 8 + 5),
      1,
      1,
      1,
      1,
    ];
    const file = Uint8Array.from([...later, ...model(later, bytes(11, value('A', 1, fixed(2))))]);
    expect(readOnnxBytes(file, 'm').inputs.map((input) => input.name)).toEqual(['A']);
  });
});

describe('files that are no models', () => {
  test.each([
    ['empty', [], /'m\.onnx' is no ONNX model: it has no graph/],
    ['text', [...Buffer.from('not a model')], /'m\.onnx' is corrupt or cut short, or no ONNX model/],
    ['a length beyond the end', [0x3a, 100, 1], /100 bytes are announced where 1 are left/],
    ['a number without an end', [0x08, ...Array<number>(11).fill(0xff)], /a number does not end/],
    ['a group', [0x0b], /wire type 3/],
    ['field number 0', [0x02, 0], /field number 0/],
    ['a graph that is a number', [0x38, 1], /field 7 is no message/],
    ['a Git LFS pointer', [...Buffer.from('version https://git-lfs.github.com/spec/v1\n')], /run 'git lfs pull'/],
  ])('%s', (_name, content, text) => {
    expect(() => readOnnxBytes(Uint8Array.from(content), 'm.onnx')).toThrow(
      expect.objectContaining({ name: 'NereidError', code: 'INVALID_ARG', message: expect.stringMatching(text) }),
    );
  });

  test('a missing file is named', () => {
    expect(() => readOnnxFile('/nowhere/model.onnx')).toThrow(/'\/nowhere\/model.onnx' cannot be read: ENOENT/);
  });

  test('whatever the bytes are, it returns or throws a NereidError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
        try {
          readOnnxBytes(Uint8Array.from([...bytes(7, []), ...noise]), 'm');
        } catch (error) {
          expect(error).toMatchObject({ name: 'NereidError' });
        }
      }),
    );
  });

  test('a model cut anywhere inside its graph is refused', () => {
    const whole = model(bytes(11, value('A', 1, fixed(2))), bytes(12, value('B', 1, symbol('n'))));
    for (let length = 1; length < whole.length; length++) {
      expect(() => readOnnxBytes(whole.subarray(0, length), 'm')).toThrow(/corrupt or cut short|no graph/);
    }
  });
});

describe('large files', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'nereid-onnx-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('weights are skipped, not read', () => {
    const weights = 3 * 2 ** 30;
    const tensorHead = [...bytes(8, 'W'), ...varint(9 * 8 + 2), ...varint(weights)];
    const initializer = [...varint(5 * 8 + 2), ...varint(tensorHead.length + weights), ...tensorHead];
    const tail = [...bytes(11, value('X', 1, fixed(2))), ...bytes(12, value('Y', 1, fixed(2)))];
    const head = [...varint(7 * 8 + 2), ...varint(initializer.length + weights + tail.length), ...initializer];
    let read = 0;
    const source: RandomAccess = {
      name: 'large.onnx',
      byteLength: head.length + weights + tail.length,
      read(offset, length) {
        read += length;
        return Uint8Array.from({ length }, (_, i) => {
          const at = offset + i;
          return at < head.length ? (head[at] ?? 0) : (tail[at - head.length - weights] ?? 0);
        });
      },
    };
    const seen: number[] = [];
    skimMessage(source, 0, source.byteLength, (graph) => {
      skimMessage(source, graph.start, graph.end, (field) => {
        seen.push(field.number);
        return undefined;
      });
      return undefined;
    });
    expect(seen).toEqual([5, 11, 12]);
    expect(read).toBeLessThan(200);
  });

  test('a sparse file of 3 GiB is read by its head and tail', () => {
    const path = join(folder, 'model.onnx');
    const weights = 3 * 2 ** 30;
    const tensorHead = [...bytes(8, 'W'), ...varint(9 * 8 + 2), ...varint(weights)];
    const initializer = [...varint(5 * 8 + 2), ...varint(tensorHead.length + weights), ...tensorHead];
    const inputs = bytes(11, value('X', 1, fixed(2)));
    const start = [...inputs, ...initializer];
    const head = [...varint(7 * 8 + 2), ...varint(start.length + weights), ...start];
    writeFileSync(path, Uint8Array.from(head));
    truncateSync(path, head.length + weights);
    expect(readOnnxFile(path).inputs.map((input) => input.name)).toEqual(['X']);
  });

  test('a file that shrinks under the reader is an error', () => {
    const path = join(folder, 'short.onnx');
    writeFileSync(path, 'short');
    const fd = openSync(path, 'r');
    try {
      expect(() => fileAccess(path, fd, 100).read(0, 100)).toThrow(/became shorter while it was read/);
    } finally {
      closeSync(fd);
    }
  });
});

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FLOAT = 1;
const INT64 = 7;
const OPSET = 13n;
const IR_VERSION = 8n;

/**
 * Writes an ONNX model whose weights take about so many bytes: it looks up the element INDEX of its table, whose every
 * element is `value`.
 */
export function addLookupModel(repository: string, name: string, bytes: number, value: number, extraConfig = ''): void {
  const folder = join(repository, name, '1');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'model.onnx'), lookupModel(Math.floor(bytes / 4), value));
  writeFileSync(
    join(repository, name, 'config.pbtxt'),
    `name: "${name}"
backend: "onnxruntime"
input [ { name: "INDEX", data_type: TYPE_INT64, dims: [ 1 ] } ]
output [ { name: "VALUE", data_type: TYPE_FP32, dims: [ 1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
${extraConfig}
`,
  );
}

function lookupModel(elements: number, value: number): Buffer {
  const table = Buffer.from(new Float32Array(elements).fill(value).buffer);
  const tensor = [int(1, BigInt(elements)), int(2, BigInt(FLOAT)), text(8, 'TABLE'), bytes(9, table)];
  const node = [text(1, 'TABLE'), text(1, 'INDEX'), text(2, 'VALUE'), text(4, 'Gather')];
  const graph = [
    message(1, node),
    text(2, 'lookup'),
    message(5, tensor),
    message(11, valueInfo('INDEX', INT64)),
    message(12, valueInfo('VALUE', FLOAT)),
  ];
  return Buffer.concat([int(1, IR_VERSION), message(7, graph), message(8, [int(2, OPSET)])]);
}

/** One dimension of 1. */
function valueInfo(name: string, datatype: number): Buffer[] {
  const shape = message(2, [message(1, [int(1, 1n)])]);
  return [text(1, name), message(2, [message(1, [int(1, BigInt(datatype)), shape])])];
}

function varint(value: bigint): Buffer {
  const out: number[] = [];
  for (let left = value; ; left >>= 7n) {
    if (left < 128n) return Buffer.from([...out, Number(left)]);
    out.push(Number(left & 127n) | 128);
  }
}

function int(field: number, value: bigint): Buffer {
  return Buffer.concat([varint(BigInt(field * 8)), varint(value)]);
}

function bytes(field: number, data: Buffer): Buffer {
  return Buffer.concat([varint(BigInt(field * 8 + 2)), varint(BigInt(data.length)), data]);
}

function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value));
}

function message(field: number, parts: readonly Buffer[]): Buffer {
  return bytes(field, Buffer.concat(parts));
}

import { readFileSync, writeFileSync } from 'node:fs';

/** Fields of protobuf messages: ModelProto.graph, GraphProto.initializer, TensorProto.name and .raw_data. */
const GRAPH = 7;
const INITIALIZER = 5;
const NAME = 8;
const RAW_DATA = 9;

/** Writes an ONNX file as another, with one weight changed: the element `index` of an initializer of FP32. */
export function changeWeight(from: string, to: string, name: string, index: number, change: (old: number) => number) {
  const bytes = readFileSync(from);
  for (const graph of fields(bytes, GRAPH)) {
    for (const tensor of fields(graph, INITIALIZER)) {
      if (fields(tensor, NAME).next().value?.toString() !== name) continue;
      const data = fields(tensor, RAW_DATA).next().value;
      // A view of the file's bytes: what is written here is written there.
      data?.writeFloatLE(change(data.readFloatLE(4 * index)), 4 * index);
      writeFileSync(to, bytes);
      return;
    }
  }
  throw new Error(`${from} has no initializer ${name}`);
}

/** The values of a field that has a length, as views of the message. */
function* fields(message: Buffer, wanted: number): Generator<Buffer, undefined> {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = message.readUInt8(at++);
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    switch (tag & 7) {
      case 0:
        varint();
        break;
      case 1:
        at += 8;
        break;
      case 5:
        at += 4;
        break;
      default: {
        const end = varint() + at;
        if (tag >>> 3 === wanted) yield message.subarray(at, end);
        at = end;
      }
    }
  }
}

// Protobuf's wire format, as much of it as editing and writing ONNX files needs. Set-up uses this before any package
// is installed.

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;
const FIXED_SIZE_BYTES = { [FIXED64]: 8, [FIXED32]: 4 };

/**
 * The fields of a message in their order.
 *
 * @param {Uint8Array} bytes
 * @returns {{ number: number, wire: number, value: bigint | Uint8Array }[]} a varint's value is a bigint, any other
 *   value is its bytes
 */
export function readFields(bytes) {
  const fields = [];
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; at < bytes.length; shift += 7n) {
      const byte = bytes[at];
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new Error('a protobuf message ends within a number');
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const wire = tag & 7;
    if (wire === VARINT) {
      fields.push({ number: tag >>> 3, wire, value: varint() });
      continue;
    }
    const size = wire === LENGTH_DELIMITED ? Number(varint()) : FIXED_SIZE_BYTES[wire];
    if (size === undefined || at + size > bytes.length) throw new Error(`byte ${at} is not a protobuf field`);
    fields.push({ number: tag >>> 3, wire, value: bytes.subarray(at, at + size) });
    at += size;
  }
  return fields;
}

/** The bytes of a message with these fields in this order. The inverse of `readFields`. */
export function writeFields(fields) {
  return Buffer.concat(
    fields.flatMap(({ number, wire, value }) => {
      const tag = varintBytes(BigInt((number << 3) | wire));
      if (wire === VARINT) return [tag, varintBytes(value)];
      return wire === LENGTH_DELIMITED ? [tag, varintBytes(BigInt(value.length)), value] : [tag, value];
    }),
  );
}

/** A field that holds an integer. */
export function integerField(number, value) {
  return { number, wire: VARINT, value: BigInt(value) };
}

/** A field that holds a string. */
export function stringField(number, text) {
  return { number, wire: LENGTH_DELIMITED, value: Buffer.from(text) };
}

/** A field that holds bytes, or a message as `writeFields` gives it. */
export function bytesField(number, value) {
  return { number, wire: LENGTH_DELIMITED, value };
}

/** A repeated field of integers, packed. */
export function packedField(number, values) {
  return bytesField(number, Buffer.concat(values.map((value) => varintBytes(BigInt(value)))));
}

function varintBytes(value) {
  const bytes = [];
  // A negative int64 is written as its two's complement.
  let rest = BigInt.asUintN(64, value);
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

/**
 * Protobuf messages as lists of fields that can also be wrong: `{ number, wire, value }`, where `value` is a bigint
 * (wire 0, 1, 5), bytes (2), or for 2 also `{ fields }` or `{ packed: [{ wire, value }, …] }`. A field of `{ raw }`
 * bytes goes as it is.
 */

export const VARINT = 0;
export const FIXED64 = 1;
export const BYTES = 2;
export const FIXED32 = 5;

export const text = (number, value) => ({ number, wire: BYTES, value: Buffer.from(value) });
export const bytes = (number, value) => ({ number, wire: BYTES, value });
export const sub = (number, fields) => ({ number, wire: BYTES, value: { fields } });
export const varint = (number, value) => ({ number, wire: VARINT, value: BigInt(value) });
export const bool = (number, value) => varint(number, value ? 1 : 0);
export const double = (number, value) => ({ number, wire: FIXED64, value: doubleBits(value) });
export const packed = (number, wire, values) => ({
  number,
  wire: BYTES,
  value: { packed: values.map((value) => ({ wire, value })) },
});

function doubleBits(value) {
  const buffer = Buffer.alloc(8);
  buffer.writeDoubleLE(value);
  return buffer.readBigUInt64LE();
}

/** `padding` bytes more than it needs. */
export function varintBytes(value, padding = 0) {
  let rest = BigInt.asUintN(64, value);
  const out = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    out.push(rest > 0n || padding > 0 ? low | 0x80 : low);
  } while (rest > 0n);
  for (let left = padding; left > 0; left -= 1) out.push(left > 1 ? 0x80 : 0);
  return Buffer.from(out);
}

function scalarBytes({ wire, value }, padding = 0) {
  if (wire === VARINT) return varintBytes(value, padding);
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64LE(BigInt.asUintN(64, value));
  return wire === FIXED64 ? buffer : buffer.subarray(0, 4);
}

/** The bytes of a message. */
export function writeMessage(fields) {
  const parts = [];
  for (const field of fields) {
    if (field.raw !== undefined) {
      parts.push(field.raw);
      continue;
    }
    const { number, wire, value, padding = 0 } = field;
    parts.push(varintBytes((BigInt(number) << 3n) | BigInt(wire)));
    if (Buffer.isBuffer(value) || value?.fields !== undefined || value?.packed !== undefined) {
      const inside = contentBytes(value);
      parts.push(varintBytes(BigInt(inside.length), Math.min(padding, 3)), inside);
    } else {
      parts.push(scalarBytes({ wire, value }, padding));
    }
  }
  return Buffer.concat(parts);
}

function contentBytes(value) {
  if (Buffer.isBuffer(value)) return value;
  return value.fields === undefined
    ? Buffer.concat(value.packed.map((one) => scalarBytes(one)))
    : writeMessage(value.fields);
}

/** All lists of fields of a message, its own first. */
export function levels(fields, found = []) {
  found.push(fields);
  for (const { value } of fields) if (value?.fields !== undefined) levels(value.fields, found);
  return found;
}

/** Reads a message: a Map of number to list of values (bigints, and bytes of wire 2). Throws for what is none. */
export function readMessage(buffer) {
  const fields = new Map();
  let at = 0;
  const varintAt = () => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = buffer[at];
      if (byte === undefined) throw new Error('a varint without an end');
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new Error('a varint of more than ten bytes');
  };
  const take = (length) => {
    if (at + length > buffer.length) throw new Error('a field beyond the end');
    at += length;
    return buffer.subarray(at - length, at);
  };
  while (at < buffer.length) {
    const tag = varintAt();
    const wire = Number(tag & 7n);
    let value;
    if (wire === VARINT) value = varintAt();
    else if (wire === FIXED64) value = take(8).readBigUInt64LE();
    else if (wire === FIXED32) value = BigInt(take(4).readUInt32LE());
    else if (wire === BYTES) value = take(Number(varintAt()));
    else throw new Error(`wire type ${wire}`);
    const number = Number(tag >> 3n);
    fields.set(number, [...(fields.get(number) ?? []), value]);
  }
  return fields;
}

/** A text field's value, '' where there is none. */
export function textOf(fields, number) {
  return (fields.get(number)?.at(-1) ?? Buffer.alloc(0)).toString('utf8');
}

/** Repeated int64, packed or not. */
export function int64sOf(fields, number) {
  return (fields.get(number) ?? []).flatMap((value) => {
    if (!Buffer.isBuffer(value)) return [BigInt.asIntN(64, value)];
    const list = [];
    for (let at = 0; at < value.length; ) {
      let end = at;
      while (value[end] >= 0x80) end += 1;
      let number64 = 0n;
      for (let index = end; index >= at; index -= 1) number64 = (number64 << 7n) | BigInt(value[index] & 0x7f);
      list.push(BigInt.asIntN(64, number64));
      at = end + 1;
    }
    return list;
  });
}

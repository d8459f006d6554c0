/** Protobuf messages by field, for tests: what the generated code would not write. */

export type Field = readonly [number: number, value: bigint | number | string | Uint8Array | readonly Field[]];

/** A message: integers are varints, texts, bytes and lists of fields are delimited. */
export function message(...fields: readonly Field[]): Uint8Array {
  return Buffer.concat(
    fields.map(([number, value]) => {
      if (typeof value === 'bigint' || typeof value === 'number') {
        return Buffer.concat([varint(BigInt(number) << 3n), varint(BigInt(value))]);
      }
      const bytes =
        typeof value === 'string' ? Buffer.from(value) : value instanceof Uint8Array ? value : message(...value);
      return Buffer.concat([varint((BigInt(number) << 3n) | 2n), varint(BigInt(bytes.length)), bytes]);
    }),
  );
}

/** Varints, one behind the other: a packed field's content. */
export function packed(...values: readonly (bigint | number)[]): Uint8Array {
  return Buffer.concat(values.map((value) => varint(BigInt(value))));
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

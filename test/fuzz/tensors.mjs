/** Elements of each datatype, by the fuzzer's own reading of the protocol: nothing here is shared with the server. */

const SPECIAL_FP64 = [0, -0, 1, -1, 0.1, 1e-7, 1e21, 5e-324, 1.7976931348623157e308, 4503599627370495.5];
const SPECIAL_FP32 = [0, -0, 1, -2.5, 0.1, 1e-45, 3.4028234663852886e38, 16777217, 1e21, 3.0000001];
const TEXTS = [
  '',
  'a',
  'hello',
  'two words',
  'héllo',
  '日本',
  '☃',
  '🎉',
  '"quoted"',
  'back\\slash',
  'line\nfeed',
  '\t',
];
/** No UTF-8, or with a NUL. */
const ODD_BYTES = [[0], [0xff], [0xc3], [0x61, 0, 0x62], [0xed, 0xa0, 0x80], [0xf8, 0x88, 0x80, 0x80]];

const isInteger = (token) => /^-?\d+$/.test(token?.number ?? '');

const small = (min, max) => ({
  random: (dice) => dice.pick([min, max, 0, 1, dice.int(min, max)]),
  json: String,
  fromJson: (token) => (isInteger(token) ? Number(token.number) : undefined),
});
const long = (min, max) => ({
  random: (dice) => dice.pick([min, max, 0n, 1n, BigInt(dice.int(0, 2 ** 50)), max - BigInt(dice.int(0, 1000))]),
  json: String,
  fromJson: (token) => (isInteger(token) ? BigInt(token.number) : undefined),
});
const half = {
  random: (dice) => dice.int(0, 65_535),
  json: () => undefined,
  fromJson: () => undefined,
};
const floats = (special, round) => ({
  random: (dice) =>
    dice.chance(0.1)
      ? dice.pick([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      : round(
          dice.chance(0.3) ? dice.pick(special) : (dice.int(-(2 ** 40), 2 ** 40) / 2 ** 20) * 10 ** dice.int(-9, 9),
        ),
  json: (value) => (Object.is(value, -0) ? '-0.0' : String(value)),
  // NaN, Infinity and -Infinity read as themselves.
  fromJson: (token) => (token?.number === undefined ? undefined : round(Number(token.number))),
});

/** How the elements of a datatype are drawn, written and read. BOOL: booleans; FP16 and BF16: bits; BYTES: Buffers. */
const KINDS = {
  BOOL: {
    size: 1,
    random: (dice) => dice.chance(0.5),
    json: String,
    fromJson: (token) => (typeof token === 'boolean' ? token : undefined),
  },
  UINT8: { size: 1, ...small(0, 255) },
  INT8: { size: 1, ...small(-128, 127) },
  UINT16: { size: 2, ...small(0, 65_535) },
  INT16: { size: 2, ...small(-32_768, 32_767) },
  UINT32: { size: 4, ...small(0, 4_294_967_295) },
  INT32: { size: 4, ...small(-2_147_483_648, 2_147_483_647) },
  UINT64: { size: 8, ...long(0n, 2n ** 64n - 1n) },
  INT64: { size: 8, ...long(-(2n ** 63n), 2n ** 63n - 1n) },
  FP16: { size: 2, ...half },
  BF16: { size: 2, ...half },
  FP32: { size: 4, ...floats(SPECIAL_FP32, Math.fround) },
  FP64: { size: 8, ...floats(SPECIAL_FP64, (value) => value) },
};

export const DATATYPES = [...Object.keys(KINDS), 'BYTES'];

const WRITERS = {
  BOOL: (buffer, value, at) => buffer.writeUInt8(value ? 1 : 0, at),
  UINT8: (buffer, value, at) => buffer.writeUInt8(value, at),
  INT8: (buffer, value, at) => buffer.writeInt8(value, at),
  UINT16: (buffer, value, at) => buffer.writeUInt16LE(value, at),
  INT16: (buffer, value, at) => buffer.writeInt16LE(value, at),
  UINT32: (buffer, value, at) => buffer.writeUInt32LE(value, at),
  INT32: (buffer, value, at) => buffer.writeInt32LE(value, at),
  UINT64: (buffer, value, at) => buffer.writeBigUInt64LE(value, at),
  INT64: (buffer, value, at) => buffer.writeBigInt64LE(value, at),
  FP16: (buffer, value, at) => buffer.writeUInt16LE(value, at),
  BF16: (buffer, value, at) => buffer.writeUInt16LE(value, at),
  FP32: (buffer, value, at) => buffer.writeFloatLE(value, at),
  FP64: (buffer, value, at) => buffer.writeDoubleLE(value, at),
};
const READERS = {
  BOOL: (buffer, at) => buffer.readUInt8(at) !== 0,
  UINT8: (buffer, at) => buffer.readUInt8(at),
  INT8: (buffer, at) => buffer.readInt8(at),
  UINT16: (buffer, at) => buffer.readUInt16LE(at),
  INT16: (buffer, at) => buffer.readInt16LE(at),
  UINT32: (buffer, at) => buffer.readUInt32LE(at),
  INT32: (buffer, at) => buffer.readInt32LE(at),
  UINT64: (buffer, at) => buffer.readBigUInt64LE(at),
  INT64: (buffer, at) => buffer.readBigInt64LE(at),
  FP16: (buffer, at) => buffer.readUInt16LE(at),
  BF16: (buffer, at) => buffer.readUInt16LE(at),
  FP32: (buffer, at) => buffer.readFloatLE(at),
  FP64: (buffer, at) => buffer.readDoubleLE(at),
};

/** One element. `anyBytes`: a BYTES element may be no UTF-8 too. */
export function randomElement(dice, datatype, anyBytes = false) {
  if (datatype !== 'BYTES') return KINDS[datatype].random(dice);
  if (anyBytes && dice.chance(0.3)) return Buffer.from(dice.pick(ODD_BYTES));
  if (dice.chance(0.02)) return Buffer.from('x'.repeat(dice.int(1_000, 70_000)));
  return Buffer.from(dice.pick(TEXTS) + (dice.chance(0.3) ? String(dice.int(0, 999)) : ''));
}

/** FP16 and BF16 have no form in JSON. */
export function isHalf(datatype) {
  return datatype === 'FP16' || datatype === 'BF16';
}

/** Whether the element can stand in a JSON body as it is. */
export function hasJson(datatype, element) {
  if (isHalf(datatype)) return false;
  if (datatype !== 'BYTES') return true;
  return Buffer.from(element.toString('utf8'), 'utf8').equals(element);
}

/** The element as a node of json-tree.mjs. */
export function elementNode(datatype, element) {
  return datatype === 'BYTES' ? { string: element.toString('utf8') } : { text: KINDS[datatype].json(element) };
}

/** Bytes of a tensor in the binary form. */
export function encodeElements(datatype, elements) {
  if (datatype === 'BYTES') {
    return Buffer.concat(
      elements.flatMap((element) => {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(element.length);
        return [length, element];
      }),
    );
  }
  const { size } = KINDS[datatype];
  const buffer = Buffer.alloc(size * elements.length);
  for (const [index, element] of elements.entries()) WRITERS[datatype](buffer, element, index * size);
  return buffer;
}

/** The elements of a tensor in the binary form; undefined where the bytes are no whole elements. */
export function decodeElements(datatype, bytes) {
  const elements = [];
  if (datatype === 'BYTES') {
    let at = 0;
    while (at < bytes.length) {
      if (at + 4 > bytes.length) return undefined;
      const end = at + 4 + bytes.readUInt32LE(at);
      if (end > bytes.length) return undefined;
      elements.push(bytes.subarray(at + 4, end));
      at = end;
    }
    return elements;
  }
  const { size } = KINDS[datatype];
  if (bytes.length % size !== 0) return undefined;
  for (let at = 0; at < bytes.length; at += size) elements.push(READERS[datatype](bytes, at));
  return elements;
}

/** Elements from what `readJson` made of an output's data; undefined for one that does not fit. */
export function elementsFromJson(datatype, tokens) {
  if (datatype === 'BYTES') {
    return tokens.every((token) => typeof token === 'string')
      ? tokens.map((token) => Buffer.from(token, 'latin1'))
      : undefined;
  }
  const elements = tokens.map(KINDS[datatype].fromJson);
  return elements.includes(undefined) ? undefined : elements;
}

/** Why two lists of elements are not the same; undefined where they are. A NaN is like any other. */
export function elementsDiffer(datatype, wanted, got) {
  if (got === undefined) return `its elements are no ${datatype}`;
  if (wanted.length !== got.length) return `${got.length} elements, not ${wanted.length}`;
  const index = wanted.findIndex((value, at) =>
    datatype === 'BYTES' ? !value.equals(got[at]) : !Object.is(value, got[at]),
  );
  return index < 0 ? undefined : `element ${index} is ${shown(got[index])}, not ${shown(wanted[index])}`;
}

function shown(element) {
  return Buffer.isBuffer(element) ? JSON.stringify(element.toString('latin1')) : String(element);
}

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { jsonCursor } from './json-cursor.ts';
import { readElements } from './json-elements.ts';
import { readElementsFast } from './json-elements-fast.ts';
import { skipValue } from './json-reader.ts';
import { decodeInferRequest } from './v2-request.ts';

const LIMITS = { json_depth_max: 100, elements_max: 1_000_000, bytes_max: 8_000_000 };
const PLACE = { name: 'X', field: 'inputs[0].data' };
const DATATYPES = ['BOOL', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64', 'FP32', 'FP64'];

const digits = (maxLength: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength });

/** Numbers as text, good ones and nearly good ones. */
const numberText = fc.oneof(
  fc.double().map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value.toExponential()),
  fc.float().map((value) => String(Math.fround(value))),
  fc.integer().map(String),
  fc.bigInt({ min: -(1n << 65n), max: 1n << 65n }).map(String),
  fc.integer({ min: -130, max: 260 }).map(String),
  fc
    .tuple(
      fc.constantFrom('', '-'),
      digits(25),
      fc.constantFrom('', '.'),
      digits(25),
      fc.constantFrom('', 'e', 'E-', 'e+'),
      digits(3),
    )
    .map(([sign, whole, point, part, letter, power]) => {
      const fraction = point === '' ? '' : point + part;
      return sign + whole + fraction + (letter === '' ? '' : letter + power);
    }),
  fc.constantFrom(
    '0',
    '-0',
    '0.0',
    '-0.0',
    '1e400',
    '00',
    '1.',
    '.5',
    '+1',
    '-',
    'NaN',
    '-Infinity',
    'Inf',
    'null',
    '"1"',
    '{}',
  ),
);
const elementText = fc.oneof(
  { weight: 9, arbitrary: numberText },
  { weight: 1, arbitrary: fc.constantFrom('true', 'false', 'tru') },
);
const space = fc.constantFrom('', '', '', ' ', '\n', '\t\r');

/** Arrays of elements, nested in any way, with white space anywhere. */
const { array: arrayText } = fc.letrec<{ array: string; element: string }>((tie) => ({
  array: fc
    .tuple(fc.array(fc.tuple(space, tie('element'), space), { maxLength: 6 }), space)
    .map(([items, gap]) => `[${gap}${items.map((item) => item.join('')).join(',')}]`),
  element: fc.oneof({ depthSize: 'small', withCrossShrink: true }, elementText, tie('array')),
}));

/** Elements that fit a datatype, so that most documents are good. */
const goodElements = fc
  .constantFrom(...(DATATYPES as Datatype[]))
  .chain((datatype) =>
    fc.tuple(fc.constant(datatype), fc.array(goodElement(datatype), { minLength: 1, maxLength: 9 })),
  );

function goodElement(datatype: Datatype): fc.Arbitrary<string> {
  switch (datatype) {
    case 'BOOL':
      return fc.boolean().map(String);
    case 'FP32':
    case 'FP64':
      return fc
        .oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.float({ noNaN: true, noDefaultInfinity: true }))
        .map(String);
    case 'INT64':
      return fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }).map(String);
    case 'UINT64':
      return fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }).map(String);
    default: {
      const bits = Number(datatype.replace(/\D+/, ''));
      const [min, max] = datatype.startsWith('U') ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
      return fc.integer({ min, max }).map(String);
    }
  }
}

function slow(text: string, datatype: Datatype, count: number): Uint8Array | string {
  const bytes = Buffer.from(text);
  try {
    const cursor = jsonCursor(bytes);
    skipValue(cursor, LIMITS.json_depth_max);
    return new Uint8Array(readElements({ bytes, start: 0, end: cursor.position }, datatype, count, PLACE));
  } catch (error) {
    if (error instanceof NereidError) return error.message;
    throw error;
  }
}

describe('the fast reader', () => {
  it('gives the bits of the complete one wherever it succeeds', () => {
    let successes = 0;
    fc.assert(
      fc.property(fc.constantFrom(...(DATATYPES as Datatype[])), arrayText, (datatype, text) => {
        for (let count = 1; count <= 8; count++) {
          const fast = readElementsFast(Buffer.from(text), 0, datatype, count, LIMITS.json_depth_max);
          if (fast === undefined) continue;
          successes++;
          expect(slow(text, datatype, count)).toEqual(fast.data);
          expect(fast.end).toBe(text.length);
        }
      }),
      { numRuns: 5_000 },
    );
    expect(successes).toBeGreaterThan(20);
  });

  it('reads every good flat list as the complete one does', () => {
    fc.assert(
      fc.property(goodElements, ([datatype, elements]) => {
        const text = `[${elements.join(', ')}]`;
        const fast = readElementsFast(Buffer.from(text), 0, datatype, elements.length, LIMITS.json_depth_max);
        expect(fast?.data).toEqual(slow(text, datatype, elements.length));
      }),
      { numRuns: 2_000 },
    );
  });

  it('rounds every decimal as Number() does', () => {
    const decimal = fc
      .tuple(
        fc.constantFrom('', '-'),
        fc.bigInt({ min: 0n, max: 10n ** 21n }),
        fc.integer({ min: 0, max: 24 }),
        fc.integer({ min: -70, max: 70 }),
      )
      .map(([sign, value, shift, power]) => {
        const all = String(value).padStart(shift + 1, '0');
        const fraction = shift === 0 ? '' : `.${all.slice(all.length - shift)}`;
        return `${sign}${all.slice(0, all.length - shift)}${fraction}${power % 3 === 0 ? '' : `e${power}`}`;
      });
    const nearTie = fc
      .tuple(fc.float({ noNaN: true, noDefaultInfinity: true }), fc.integer({ min: 9, max: 20 }))
      .map(([value, precision]) => {
        const next = new Float32Array(1);
        next[0] = value;
        const bits = new Uint32Array(next.buffer);
        bits[0] = (bits[0] as number) + 1;
        const middle = (Math.fround(value) + (next[0] as number)) / 2;
        return Number.isFinite(middle) ? middle.toPrecision(precision) : '0';
      });
    fc.assert(
      fc.property(
        fc.oneof(decimal, nearTie, fc.double({ noNaN: true, noDefaultInfinity: true }).map(String)),
        (text) => {
          const bytes = Buffer.from(`[${text}]`);
          const single = readElementsFast(bytes, 0, 'FP32', 1, 1);
          const double = readElementsFast(bytes, 0, 'FP64', 1, 1);
          expect(single?.data).toEqual(new Uint8Array(Float32Array.of(Number(text)).buffer));
          expect(double?.data).toEqual(new Uint8Array(Float64Array.of(Number(text)).buffer));
        },
      ),
      { numRuns: 20_000 },
    );
  });
});

describe('a request', () => {
  it('means the same wherever `data` stands in its input', () => {
    const outcome = (body: string) => {
      try {
        return decodeInferRequest(Buffer.from(body), { modelName: 'm', modelVersion: '', limits: LIMITS }).request;
      } catch (error) {
        if (error instanceof NereidError) return error.message.replace(/ at \d+$/, '');
        throw error;
      }
    };
    fc.assert(
      fc.property(
        fc.constantFrom(...DATATYPES, 'BYTES', 'FP16'),
        arrayText,
        fc.integer({ min: 0, max: 6 }),
        (datatype, data, count) => {
          const others = `"name":"X","datatype":"${datatype}","shape":[${count}]`;
          const first = outcome(`{"inputs":[{"data":${data},${others}}]}`);
          expect(outcome(`{"inputs":[{${others},"data":${data}}]}`)).toEqual(first);
        },
      ),
      { numRuns: 3_000 },
    );
  });
});

describe('the syntax', () => {
  const token = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '"b\\n"',
    '"\\u00e9"',
    '1',
    '-0',
    '1.5e3',
    'true',
    'null',
    ' ',
    '\n',
    '"',
    '\\',
    '01',
    'é',
    '\u0001',
  );
  it('is that of JSON.parse', () => {
    let accepted = 0;
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          fc.array(token, { maxLength: 9 }).map((tokens) => tokens.join('')),
        ),
        (text) => {
          const cursor = jsonCursor(Buffer.from(text));
          let ours = true;
          try {
            skipValue(cursor, 100);
            ours = Buffer.from(text).subarray(cursor.position).toString().trim() === '';
          } catch (error) {
            if (!(error instanceof NereidError)) throw error;
            ours = false;
          }
          let theirs = true;
          try {
            JSON.parse(text);
            accepted++;
          } catch {
            theirs = false;
          }
          expect(ours).toBe(theirs);
        },
      ),
      { numRuns: 5_000 },
    );
    expect(accepted).toBeGreaterThan(500);
  });

  it('never fails otherwise than with a client error, whatever the bytes', () => {
    const good = Buffer.from(
      '{"id":"a","parameters":{"p":1.5},"inputs":[{"name":"X","shape":[2],"datatype":"FP32","data":[1,2]},' +
        '{"name":"B","shape":[1],"datatype":"BYTES","data":["\\u0041"]}],"outputs":[{"name":"Y"}]}',
    );
    const change = fc.tuple(
      fc.nat(good.byteLength - 1),
      fc.oneof(fc.nat(255), fc.constantFrom(0x22, 0x5b, 0x5d, 0x2c, 0x7b, 0x7d)),
    );
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 3 }), fc.nat(good.byteLength), (changes, length) => {
        const body = Buffer.from(good);
        for (const [position, byte] of changes) body[position] = byte;
        try {
          decodeInferRequest(length % 3 === 0 ? body.subarray(0, length) : body, {
            modelName: 'm',
            modelVersion: '',
            limits: LIMITS,
          });
        } catch (error) {
          expect(error).toBeInstanceOf(NereidError);
          expect((error as NereidError).code).toMatch(/INVALID_ARG|NOT_FOUND/);
        }
      }),
      { numRuns: 5_000 },
    );
  });
});

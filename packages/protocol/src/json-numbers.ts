/**
 * Numbers as JSON text, as Triton writes them: FP32 widened to double, integral floating-point numbers
 * with `.0`, and the tokens NaN, Infinity and -Infinity. Every text reads back as the same number; the
 * last digits may be others than Triton's.
 */
import type { Datatype } from './datatype.ts';
import type { ElementArray } from './element-array.ts';

/** The longest element with its comma: sign, 8 digits, point, 22 digits. */
export const ELEMENT_TEXT_BYTES_MAX = 34;

/** Prints `values[start…end)` each with a comma at `at`; returns the end of the text. */
export type PrintElements = (values: ElementArray, start: number, end: number, out: Buffer, at: number) => number;

/** Integers below this are printed digit by digit from a double. */
const DIGITS_END = 1e15;
/** JavaScript writes doubles from here with an exponent, so that they need no `.0`. */
const EXPONENT_START = 1e21;
/** FP32 in these bounds are printed digit by digit, see printFraction. */
const FRACTION_START = 2 ** -18;
const FRACTION_END = 2 ** 24;
/** From here 18 digits of the fraction tell a double from its neighbours, below it takes 22. */
const FRACTION_18_START = 2 ** -6;
const NINE_DIGITS = 1_000_000_000;
const FOUR_DIGITS = 10_000;
/** From so many doubles on, one native call costs less than a text for each. */
const RUN_ELEMENTS_MIN = 4;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const TRUE_TEXT = Buffer.from('true,');
const FALSE_TEXT = Buffer.from('false,');

/** A double as Triton writes it. */
export function doubleText(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < EXPONENT_START) return Object.is(value, -0) ? '-0.0' : `${value}.0`;
  return String(value);
}

/** How the elements of a datatype with typed arrays are printed. */
export function printerFor(datatype: Exclude<Datatype, 'BYTES'>): PrintElements {
  switch (datatype) {
    case 'BOOL':
      return printBooleans;
    case 'INT64':
    case 'UINT64':
      return printLongs;
    case 'FP32':
      return printFloats;
    case 'FP64':
      return printDoubles;
    default:
      return printIntegers;
  }
}

const printBooleans: PrintElements = (values, start, end, out, at) => {
  let position = at;
  for (let index = start; index < end; index++) {
    const word = values[index] === 0 ? FALSE_TEXT : TRUE_TEXT;
    for (let place = 0; place < word.length; place++) out[position++] = word[place] as number;
  }
  return position;
};

const printIntegers: PrintElements = (values, start, end, out, at) => {
  let position = at;
  for (let index = start; index < end; index++) {
    position = printInteger(values[index] as number, out, position);
    out[position++] = COMMA;
  }
  return position;
};

const printLongs: PrintElements = (values, start, end, out, at) => {
  let position = at;
  for (let index = start; index < end; index++) {
    const value = values[index] as bigint;
    const double = Number(value);
    if (double < DIGITS_END && double > -DIGITS_END) position = printInteger(double, out, position);
    else position += out.write(String(value), position, 'latin1');
    out[position++] = COMMA;
  }
  return position;
};

const printFloats: PrintElements = (values, start, end, out, at) => {
  let position = at;
  for (let index = start; index < end; index++) {
    const value = values[index] as number;
    const magnitude = value < 0 ? -value : value;
    if (isPlain(value)) {
      position = printIntegral(value, out, position);
    } else if (magnitude >= FRACTION_START && magnitude < FRACTION_END) {
      if (value < 0) out[position++] = MINUS;
      position = printFraction(magnitude, out, position);
    } else {
      position += out.write(doubleText(value), position, 'latin1');
    }
    out[position++] = COMMA;
  }
  return position;
};

const printDoubles: PrintElements = (values, start, end, out, at) => {
  let position = at;
  let index = start;
  while (index < end) {
    let next = index;
    while (next < end && isFraction(values[next] as number)) next++;
    if (next - index >= RUN_ELEMENTS_MIN) {
      const run = JSON.stringify(Array.from(values.subarray(index, next) as Float64Array));
      position += out.write(run.slice(1, -1), position, 'latin1');
      index = next;
    } else {
      const value = values[index++] as number;
      position = isPlain(value)
        ? printIntegral(value, out, position)
        : position + out.write(doubleText(value), position, 'latin1');
    }
    out[position++] = COMMA;
  }
  return position;
};

/** An integral number of few digits that is not -0. */
function isPlain(value: number): boolean {
  return Number.isInteger(value) && value < DIGITS_END && value > -DIGITS_END && !Object.is(value, -0);
}

/** Finite and not integral: what JavaScript and Triton write alike. */
function isFraction(value: number): boolean {
  return Number.isFinite(value) && !Number.isInteger(value);
}

function printIntegral(value: number, out: Buffer, at: number): number {
  const end = printInteger(value, out, at);
  out[end] = POINT;
  out[end + 1] = ZERO;
  return end + 2;
}

/**
 * Prints a positive FP32 that is not integral, cut after 18 or 22 digits of its fraction. Its lowest bit
 * is worth at least 2^-41, so that each product below is exact in a double, and what is cut is less than
 * half the distance to the next double.
 */
function printFraction(value: number, out: Buffer, at: number): number {
  const whole = Math.floor(value);
  let position = printInteger(whole, out, at);
  out[position++] = POINT;
  const first = (value - whole) * NINE_DIGITS;
  const upper = Math.floor(first);
  position = printDigits(upper, 9, out, position);
  const second = (first - upper) * NINE_DIGITS;
  const lower = Math.floor(second);
  if (second > 0) position = printDigits(lower, 9, out, position);
  if (value < FRACTION_18_START) position = printDigits(Math.floor((second - lower) * FOUR_DIGITS), 4, out, position);
  while (out[position - 1] === ZERO) position--;
  return position;
}

/** Prints a number below 10^9 with leading zeros to `count` digits. */
function printDigits(value: number, count: number, out: Buffer, at: number): number {
  let rest = value | 0;
  for (let place = at + count - 1; place >= at; place--) {
    const next = (rest / 10) | 0;
    out[place] = ZERO + (rest - next * 10);
    rest = next;
  }
  return at + count;
}

/** Prints an integer of at most 15 digits. */
function printInteger(value: number, out: Buffer, at: number): number {
  let position = at;
  let rest = value;
  if (rest < 0) {
    out[position++] = MINUS;
    rest = -rest;
  }
  let digits = 1;
  for (let bound = 10; bound <= rest; bound *= 10) digits++;
  const end = position + digits;
  let place = end;
  while (rest > 0x7fffffff) {
    const next = Math.floor(rest / 10);
    out[--place] = ZERO + (rest - next * 10);
    rest = next;
  }
  let small = rest | 0;
  while (place > position) {
    const next = (small / 10) | 0;
    out[--place] = ZERO + (small - next * 10);
    small = next;
  }
  return end;
}

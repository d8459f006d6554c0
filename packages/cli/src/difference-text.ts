/** Where a replay differs from its recording, in words. */
import type { StepDifference } from '@nereid/protocol';

/** `step 412, output output [0,0]: recorded 0.0123, replayed 0.0125 (3 of 512 elements differ, by 0.0002 at most)`. */
export function differenceText(difference: StepDifference): string {
  const { step, kind, answer, output, index = [], recorded, replayed, differing, elements, largest } = difference;
  const place = [
    `step ${step}`,
    ...(answer === undefined ? [] : [`answer ${answer}`]),
    ...(output === undefined ? [] : [`output ${output}${index.length === 0 ? '' : ` [${index}]`}`]),
  ].join(', ');
  if (kind === 'steps') return `${place}: only the ${recorded === true ? 'first' : 'second'} has it`;
  const what = WHAT[kind] ?? '';
  const by = largest === undefined ? '' : `, by ${distanceText(largest)} at most`;
  const spread = elements === undefined || elements < 2 ? '' : ` (${differing} of ${elements} elements differ${by})`;
  return `${place}: recorded ${what}${valueText(recorded)}, replayed ${what}${valueText(replayed)}${spread}`;
}

/** What stands before both values. */
const WHAT: Readonly<Record<string, string>> = {
  shape: 'shape ',
  datatype: 'datatype ',
  digest: 'SHA-256 ',
  answers: 'answers: ',
};

function valueText(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  if (Array.isArray(value)) return `[${value}]`;
  if (typeof value === 'number') return numberText(value);
  if (typeof value !== 'object') return String(value);
  const { datatype, shape, code, message, base64 } = value as Readonly<Record<string, unknown>>;
  if (code !== undefined) return `the error ${code}: ${message}`;
  if (datatype !== undefined) return `${datatype}[${shape}]`;
  return base64 === undefined ? JSON.stringify(value) : `bytes ${base64} (base64)`;
}

/** As few digits as tell it from others of its kind: most values are of 32 bits. */
export function numberText(value: number): string {
  if (!Number.isFinite(value) || Math.fround(value) !== value) return String(value);
  for (let digits = 1; digits < FP32_DIGITS_MAX; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(Number(value.toPrecision(FP32_DIGITS_MAX)));
}

const FP32_DIGITS_MAX = 9;
const DISTANCE_DIGITS = 3;

function distanceText(largest: number | string): string {
  return typeof largest === 'number' ? String(Number(largest.toPrecision(DISTANCE_DIGITS))) : largest;
}

/**
 * Classification: an output's values as its greatest classes (TopkClassifications in classification.cc,
 * extension_classification.md).
 */
import { encodeBytesElements } from './bytes-elements.ts';
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import type { InferResponse } from './infer.ts';
import { elementCount, fixedByteSize, type Tensor } from './tensor.ts';
import { typedView } from './tensor-values.ts';
import type { RequestedOutput } from './v2-outputs.ts';

/** Elements of one row; more are refused, since they would be sorted on the thread that serves everybody. */
const CLASSIFIED_ELEMENTS_MAX = 1_000_000;

const CLASSIFIED_DATATYPES: ReadonlySet<Datatype> = new Set<Datatype>([
  'UINT8',
  'UINT16',
  'UINT32',
  'UINT64',
  'INT8',
  'INT16',
  'INT32',
  'INT64',
  'FP32',
  'FP64',
]);

/** What classification takes from the model's record. */
export interface ClassifiedModel {
  /** The model batches: the first dimension is of rows, each with classes of its own. */
  readonly batching: boolean;
  /** Class labels by output name. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
}

/**
 * The response with its classes in place of each output for which they are asked, and the response
 * itself where none is. Of an output that is listed twice the first listing counts.
 * Throws INVALID_ARG for an output that cannot be classified, INTERNAL where its data and shape do
 * not fit together.
 */
export function classifyOutputs(
  response: InferResponse,
  requested: readonly RequestedOutput[],
  { batching, labels }: ClassifiedModel,
): InferResponse {
  if (!requested.some(({ classification }) => classification > 0)) return response;
  const outputs = response.outputs.map((output) => {
    const count = requested.find(({ name }) => name === output.name)?.classification ?? 0;
    return count > 0 ? classify(output, { count, batching, labels: labels[output.name] ?? [] }) : output;
  });
  return { ...response, outputs };
}

export interface ClassifyOptions {
  /** Classes wanted of each row, at least 1; a row of fewer elements has as many as it has elements. */
  readonly count: number;
  readonly batching: boolean;
  /** By index; what has none, or an empty one, is told without it. */
  readonly labels: readonly string[];
}

/**
 * A BYTES tensor of `value:index` or `value:index:label`, the greatest value first, of equal ones the
 * lower index. Its shape is [rows, classes], and [classes] without batching.
 */
export function classify(tensor: Tensor, { count, batching, labels }: ClassifyOptions): Tensor {
  const { name, datatype, shape } = tensor;
  if (!CLASSIFIED_DATATYPES.has(datatype)) {
    throw refused(`class result not available for output due to unsupported type '${datatype}'`);
  }
  if (fixedByteSize(datatype, shape) !== tensor.data.byteLength) {
    throw new NereidError('INTERNAL', `output tensor shape does not match size of output for '${name}'`);
  }
  const hasRows = batching && shape.length > 0;
  const rows = hasRows ? (shape[0] ?? 0) : 1;
  const rowElements = elementCount(hasRows ? shape.slice(1) : shape) ?? 0;
  if (rows === 0 || rowElements === 0) {
    throw refused(`class result not available for output '${name}' since it has no elements`);
  }
  if (rowElements > CLASSIFIED_ELEMENTS_MAX) {
    throw refused(
      `class result not available for output '${name}' of ${rowElements} elements, more than ${CLASSIFIED_ELEMENTS_MAX}`,
    );
  }
  const values: ArrayLike<number | bigint> = typedView(tensor);
  const text = datatype === 'FP32' || datatype === 'FP64' ? sixDecimals : String;
  const classes = Math.min(count, rowElements);
  const elements: string[] = [];
  for (let row = 0; row < rows; row++) {
    const start = row * rowElements;
    for (const place of greatest(values, start, start + rowElements, classes)) {
      const index = place - start;
      const label = labels[index] ?? '';
      elements.push(`${text(values[place] as number)}:${index}${label === '' ? '' : `:${label}`}`);
    }
  }
  return { name, datatype: 'BYTES', shape: hasRows ? [rows, classes] : [classes], data: encodeBytesElements(elements) };
}

/** Places of the `count` greatest of values[start…end), the greatest first, of equal ones the lower place, NaN last. */
function greatest(values: ArrayLike<number | bigint>, start: number, end: number, count: number): readonly number[] {
  const order = (a: number, b: number) => {
    const left = values[a] as number | bigint;
    const right = values[b] as number | bigint;
    if (left > right) return -1;
    if (left < right) return 1;
    // Of what is neither, either both are equal or one at least is NaN.
    return Number(Number.isNaN(left)) - Number(Number.isNaN(right)) || a - b;
  };
  const kept: number[] = [];
  // The last of those that are sure to be before whatever comes behind it.
  let last: number | undefined;
  for (let place = start; place < end; place++) {
    if (last !== undefined && order(last, place) < 0) continue;
    kept.push(place);
    if (kept.length < 2 * count) continue;
    kept.sort(order);
    kept.length = count;
    last = kept[count - 1];
  }
  return kept.sort(order).slice(0, count);
}

/** From here JavaScript writes a number with an exponent; all from 2^53 are integral. */
const EXPONENT_START = 1e21;
/** A number is half-way between two texts only if it is an odd multiple of this. */
const TIE_STEP = 1 / 128;
const MILLIONS = 1_000_000;

/** A number as C's `%f` has it: six decimals, half-way cases to the even one. */
export function sixDecimals(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const magnitude = Math.abs(value);
  if (magnitude === Number.POSITIVE_INFINITY) return `${sign}inf`;
  if (magnitude >= EXPONENT_START) return `${sign}${BigInt(magnitude)}.000000`;
  if ((magnitude / TIE_STEP) % 2 !== 1) return sign + magnitude.toFixed(6);
  const whole = Math.floor(magnitude);
  const below = Math.floor((magnitude - whole) * MILLIONS);
  return `${sign}${whole}.${String(below + (below % 2)).padStart(6, '0')}`;
}

function refused(message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field: 'outputs.parameters.classification' });
}

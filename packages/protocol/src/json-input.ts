import { DATATYPE_BYTES, type Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import type { RequestLimits } from './protocol-limits.ts';

/** An input whose data came as JSON. */
export interface JsonInput {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** Where the data stand, e.g. `inputs[0].data`. */
  readonly field: string;
}

/** What the bounds of an input are on. */
export interface JsonInputSize {
  readonly count: number;
  /** Elements of the request's inputs up to this one, itself with them. */
  readonly elements: number;
  readonly textBytes: number;
}

/**
 * Throws INVALID_ARG for a datatype that cannot come as JSON (ReadDataFromJson in http_server.cc) and
 * for more elements or bytes than a request may have, before anything is set aside for them.
 */
export function checkJsonInput(
  { name, datatype, shape, field }: JsonInput,
  { count, elements, textBytes }: JsonInputSize,
  limits: RequestLimits,
): void {
  if (datatype === 'FP16' || datatype === 'BF16') {
    throw new NereidError(
      'INVALID_ARG',
      `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${name}`,
      { field },
    );
  }
  if (elements > limits.elements_max) {
    throw new NereidError(
      'INVALID_ARG',
      `invalid shape for input '${name}': with shape [${shape}] the request has ${elements} JSON elements, ` +
        `more than ${limits.elements_max}. Please use the binary data format.`,
      { field },
    );
  }
  // What a BYTES tensor takes is bounded by its text, which is at least as long but for 4 bytes an element.
  const bytes = datatype === 'BYTES' ? textBytes : count * DATATYPE_BYTES[datatype];
  if (bytes > limits.bytes_max) {
    throw new NereidError(
      'INVALID_ARG',
      `JSON input '${name}' has a byte_size (${bytes} bytes) that exceeds the maximum allowed value of ` +
        `${limits.bytes_max} bytes. Use --http-max-input-size to increase the limit.`,
      { field },
    );
  }
}

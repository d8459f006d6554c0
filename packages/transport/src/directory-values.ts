/**
 * Small texts that a whole cluster shares by name, such as the settings that Triton has per server
 * (docs/protocol.md R39). They live as long as any process is registered.
 */
import { NereidError } from '@nereid/protocol';

/** What stands under a name. */
export interface SharedValue {
  readonly text: string;
  /** Rises with each change of the name, from 1; also through a Redis that forgot it. */
  readonly version: number;
}

/** Bytes of one text as UTF-8: the names of 65,536 models of 60 bytes each. */
export const VALUE_BYTES_MAX = 4_194_304;
/** Names; each stands in the code, so that more of them are a mistake. */
export const VALUES_MAX = 64;

/** Throws INVALID_ARG for a text beyond its bound. */
export function checkValue(name: string, text: string): void {
  const bytes = Buffer.byteLength(text);
  if (bytes <= VALUE_BYTES_MAX) return;
  throw new NereidError('INVALID_ARG', `'${name}' would take ${bytes} bytes, more than ${VALUE_BYTES_MAX}`);
}

export function tooManyValues(name: string): NereidError {
  return new NereidError('INVALID_ARG', `'${name}' would be one more than ${VALUES_MAX} shared values`);
}

import type { ErrorInfo } from '@nereid/protocol';

export type InferHeaderLength =
  /** undefined: no header, so the whole body is JSON. 0: the whole body is one raw tensor. */
  { readonly ok: true; readonly length: number | undefined } | { readonly ok: false; readonly error: ErrorInfo };

/**
 * The value of `Inference-Header-Content-Length`. Text that does not begin with a number counts as 0,
 * as C's atoi has it in Triton; a number with something behind it is refused, not cut.
 */
export function inferHeaderLength(value: string | string[] | undefined, bodyBytes: number): InferHeaderLength {
  if (value === undefined) return { ok: true, length: undefined };
  const text = String(value).trim();
  const number = /^([+-]?[0-9]+)(.*)$/.exec(text);
  if (number === null) return { ok: true, length: 0 };
  const length = Number(number[1]);
  if (number[2] !== '') return refuse(`Unable to parse Inference-Header-Content-Length, got: ${text}`);
  if (length < 0 || length > bodyBytes) {
    return refuse(`inference header size should be in range (0, ${bodyBytes}), got: ${text}`);
  }
  return { ok: true, length };
}

function refuse(message: string): InferHeaderLength {
  return { ok: false, error: { code: 'INVALID_ARG', message, field: 'Inference-Header-Content-Length' } };
}

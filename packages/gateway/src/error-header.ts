import { dueStep, type ErrorInfo } from '@nereid/protocol';

/** A header value is cut here; the text of the error is elsewhere in the answer. */
const DETAIL_LENGTH_MAX = 200;

/**
 * Code, field and reason of an error, `CODE; field=…; reason=…`, of a gap also the step that is due, `due=…`: the header `Nereid-Error` of HTTP, the
 * trailer `nereid-error` of gRPC. What a client wrote (tensor names) comes back as printable ASCII only.
 */
export function errorHeader(error: ErrorInfo): string {
  const field = error.field === undefined ? '' : `; field=${headerSafe(error.field)}`;
  const reason = error.reason === undefined ? '' : `; reason=${headerSafe(error.reason)}`;
  const due = dueStep(error);
  return error.code + field + reason + (due === undefined ? '' : `; due=${due}`);
}

function headerSafe(text: string): string {
  return text.slice(0, DETAIL_LENGTH_MAX).replaceAll(/[^\x21-\x3a\x3c-\x7e]/g, '?');
}

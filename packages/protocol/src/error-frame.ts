import { ERROR_TABLE, type ErrorCode, type ErrorInfo } from './error.ts';
import { type FrameReader, oneOf, record, text } from './frame-reader.ts';

/** An error in the header of a frame. */
export const readError: FrameReader<ErrorInfo> = (value, body) => {
  const { code, message, field, reason } = record<Record<'code' | 'message' | 'field' | 'reason', unknown>>({
    code: oneOf(Object.keys(ERROR_TABLE)),
    message: text,
    field: (member) => (member === undefined ? undefined : text(member, body)),
    reason: (member) => (member === undefined ? undefined : text(member, body)),
  })(value, body) as { code: ErrorCode; message: string; field?: string; reason?: string };
  return { code, message, ...(field === undefined ? {} : { field }), ...(reason === undefined ? {} : { reason }) };
};

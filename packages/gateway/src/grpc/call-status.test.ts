import { describe, expect, it } from 'vitest';
import { encodedMessage, errorStatus, OK, statusTrailers } from './call-status.ts';

describe('the message of a status', () => {
  it.each([
    ['', ''],
    ["Request for unknown model: 'm' is not found", "Request for unknown model: 'm' is not found"],
    ['100% é', '100%25 %C3%A9'],
    ['two\nlines\tand 😀', 'two%0Alines%09and %F0%9F%98%80'],
    [' blanks at its ends ', '%20blanks at its ends%20'],
    [' ', '%20'],
    ['a lone \ud800 half', 'a lone %EF%BF%BD half'],
  ])('%j is %j', (message, encoded) => {
    expect(encodedMessage(message)).toBe(encoded);
  });

  it('is cut where it is too long, not within a character', () => {
    expect(encodedMessage('x'.repeat(6_144))).toHaveLength(6_144);
    expect(encodedMessage('x'.repeat(6_145))).toBe(`${'x'.repeat(6_144)}...`);
    expect(encodedMessage('é'.repeat(2_000))).toBe(`${'%C3%A9'.repeat(1_024)}...`);
  });
});

it('the trailers of an error have its status, its text, and code, field and reason', () => {
  const status = errorStatus({ code: 'INVALID_ARG', message: 'no', field: 'inputs[0].shape', reason: 'r' });
  expect(statusTrailers(status)).toEqual({
    'grpc-status': 3,
    'grpc-message': 'no',
    'nereid-error': 'INVALID_ARG; field=inputs[0].shape; reason=r',
  });
  expect(statusTrailers(OK)).toEqual({ 'grpc-status': 0 });
});

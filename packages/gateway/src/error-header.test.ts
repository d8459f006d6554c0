import { describe, expect, it } from 'vitest';
import { errorHeader } from './error-header.ts';

describe('the Nereid-Error header', () => {
  it.each([
    [{ code: 'NOT_FOUND', message: 'x' }, 'NOT_FOUND'],
    [{ code: 'INVALID_ARG', message: 'x', field: 'inputs[0].shape' }, 'INVALID_ARG; field=inputs[0].shape'],
    [{ code: 'INVALID_ARG', message: 'x', reason: 'sequence_lost' }, 'INVALID_ARG; reason=sequence_lost'],
    [{ code: 'UNKNOWN', message: 'x', field: 'a', reason: 'b' }, 'UNKNOWN; field=a; reason=b'],
    [{ code: 'INVALID_ARG', message: 'x', field: 'a\r\nX: y; é' }, 'INVALID_ARG; field=a??X:?y???'],
    [{ code: 'INVALID_ARG', message: 'x', field: 'n'.repeat(999) }, `INVALID_ARG; field=${'n'.repeat(200)}`],
  ] as const)('of %j is %s', (error, header) => {
    expect(errorHeader(error)).toBe(header);
  });
});

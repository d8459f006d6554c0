import { answerExpired, SEQUENCE_TIMEOUT, sequenceLost, stepGap } from '@nereid/protocol';
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
    [sequenceLost('m', 5n), 'INVALID_ARG; reason=sequence_lost'],
    [stepGap('m', 'a', 4), 'INVALID_ARG; field=parameters.nereid_step; reason=step_gap; due=4'],
    [
      stepGap('m', 'waits for nereid_step 9: send', 4),
      'INVALID_ARG; field=parameters.nereid_step; reason=step_gap; due=4',
    ],
    [answerExpired('m', 5n), 'INVALID_ARG; field=parameters.nereid_step; reason=answer_expired'],
    [SEQUENCE_TIMEOUT, 'UNAVAILABLE'],
  ] as const)('of %j is %s', (error, header) => {
    expect(errorHeader(error)).toBe(header);
  });
});

import {
  ANSWER_REFUSED,
  type ErrorCode,
  noVersions,
  QUEUE_FULL,
  QUEUE_TIMEOUT,
  STOPPING,
  versionNotFound,
  versionNotReady,
  withRequestId,
} from '@nereid/protocol';
import { expect, test } from 'vitest';
import { jobVerdict } from './job-verdict.ts';
import { INSTANCE_LOST } from './request-error.ts';

const behindId = (error: { readonly code: ErrorCode; readonly message: string }) => withRequestId({ id: 'r' }, error);

test.each([
  ['a wrong request', { code: 'INVALID_ARG', message: 'wrong' }, 'final'],
  ['what is not served', { code: 'UNSUPPORTED', message: 'no' }, 'final'],
  ['a version that there is not', versionNotFound('m', '9'), 'final'],
  ['a request that kills workers', { code: 'POISONED', message: 'x' }, 'final'],
  ['a failed model', { code: 'INTERNAL', message: 'x' }, 'retry'],
  ['a lost instance', behindId(INSTANCE_LOST), 'retry'],
  ['a stream that broke off', { code: 'UNAVAILABLE', message: 'x', reason: 'stream_broken' }, 'retry'],
  ['an answer that may be too large', ANSWER_REFUSED, 'retry'],
  ["a queue's own timeout", behindId(QUEUE_TIMEOUT), 'retry'],
  ['a full queue', behindId(QUEUE_FULL), 'later'],
  ['a server that stops', STOPPING, 'later'],
  ['a version that is not ready', versionNotReady('m', '1'), 'later'],
  ['a model without a worker', noVersions('m'), 'later'],
] as const)('%s', (_what, error, verdict) => {
  expect(jobVerdict(error, 'm', false)).toBe(verdict);
});

test('a passed deadline of its own', () => {
  expect(jobVerdict(QUEUE_TIMEOUT, 'm', true)).toBe('final');
});

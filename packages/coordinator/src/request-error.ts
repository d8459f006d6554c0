import type { ErrorInfo } from '@nereid/protocol';

/** Texts of the owner alone for requests that are not executed; Triton's where it has one (infer_request.cc, scheduler.h). */
export const DEADLINE_PASSED: ErrorInfo = { code: 'UNAVAILABLE', message: 'Request timeout expired' };

export const INSTANCE_LOST: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'the instance that ran the request was lost twice; try again later',
};

import type { ErrorInfo } from '@nereid/protocol';

/** Of the owner alone. */
export const INSTANCE_LOST: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'the instance that ran the request was lost twice; try again later',
};

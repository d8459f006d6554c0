import type { ErrorInfo } from '@nereid/protocol';

/** Of the owner alone. */
export const INSTANCE_LOST: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'the instance that ran the request was lost twice; try again later',
};

/** Of a request that is a sequence by itself, of which a run was done. */
export const RUN_LOST: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'the request ended between its runs: its instance was lost, or its sequence was evicted; try again later',
};

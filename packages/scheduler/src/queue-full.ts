import type { ErrorInfo } from '@nereid/protocol';

/** Triton's text (dynamic_batch_scheduler.cc); whoever answers the client adds the request id's prefix. */
export const QUEUE_FULL: ErrorInfo = { code: 'UNAVAILABLE', message: 'Exceeds maximum queue size' };

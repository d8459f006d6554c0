import type { QueuedRequest } from './schedule.ts';

/** A request of one row that arrived at 0 and asks for nothing. */
export function queuedRequest(given: Partial<QueuedRequest> & Pick<QueuedRequest, 'id'>): QueuedRequest {
  return {
    rows: 1,
    shapeKey: '',
    arrivedUs: 0,
    priority: 0,
    timeoutUs: 0,
    deadlineUs: undefined,
    patient: false,
    sender: 'gw-1',
    coming: 0,
    sequence: undefined,
    ...given,
  };
}

import type { BatchTimes, Scheduler } from '@nereid/scheduler';
import type { OwnedRequest } from './version-queue.ts';

/** Tells a scheduler that wants to know it what runs, where that has changed. */
export function createRunningWord(
  scheduler: Scheduler<OwnedRequest>,
): (requests: number, times: BatchTimes | undefined, nowUs: number) => void {
  let toldRequests = 0;
  let toldTimes: BatchTimes | undefined;
  return (requests, times, nowUs) => {
    if (requests === toldRequests && times === toldTimes) return;
    toldRequests = requests;
    toldTimes = times;
    scheduler.step({ type: 'running', requests, times }, nowUs);
  };
}

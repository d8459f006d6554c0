import type { InstanceKey, ScheduleEvent, Scheduler } from '@nereid/scheduler';
import type { OwnedRequest } from './version-queue.ts';

export interface SpareInstances {
  /** Background requests that wait. */
  readonly waiting: number;
  /** To be called after each event: tells the scheduler of what nobody else took. */
  offer(): void;
}

/** `spare`: instances that run nothing; `step` has an event decided and carried out, and may call `offer` in it. */
export function createSpareInstances(
  scheduler: Scheduler<OwnedRequest>,
  spare: () => readonly InstanceKey[],
  step: (event: ScheduleEvent<OwnedRequest>) => void,
): SpareInstances {
  const waiting = () => scheduler.background ?? 0;
  let offering = false;
  return {
    get waiting() {
      return waiting();
    },
    offer() {
      if (offering || waiting() === 0) return;
      offering = true;
      try {
        const instances = spare();
        for (const [index, instance] of instances.entries()) {
          if (waiting() === 0) break;
          step({ type: 'instance-spare', instance, others: instances.length - index - 1 });
        }
      } finally {
        offering = false;
      }
    },
  };
}

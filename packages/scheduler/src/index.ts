export type {
  CloseReason,
  Decision,
  InstanceKey,
  QueuedRequest,
  ScheduleEvent,
  Scheduler,
} from './schedule.ts';

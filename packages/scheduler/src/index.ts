export { type BatchTimes, INSTANCE_DEPTH_MAX, instanceDepth, nextMeanTimes } from './instance-depth.ts';
export type {
  CloseReason,
  Decision,
  InstanceKey,
  QueuedRequest,
  ScheduleEvent,
  Scheduler,
} from './schedule.ts';
export { batchesDynamically, createScheduler, depthKind, type SchedulerOptions } from './schedulers.ts';
export { batchShapeKey } from './shape-key.ts';

export { type BatchTimes, INSTANCE_DEPTH_MAX, instanceDepth, nextMeanTimes } from './instance-depth.ts';
export { createReleaseOrder, type OrderedAnswer, type ReleaseOrder } from './release-order.ts';
export type {
  CloseReason,
  Decision,
  InstanceKey,
  QueuedRequest,
  ScheduleEvent,
  Scheduler,
} from './schedule.ts';
export {
  batchesDynamically,
  createScheduler,
  depthKind,
  preservesOrdering,
  type SchedulerOptions,
} from './schedulers.ts';
export { batchShapeKey } from './shape-key.ts';

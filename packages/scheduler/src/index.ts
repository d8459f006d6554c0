export type { BatchStrategy, StrategyBatch } from './batch-strategy.ts';
export { desiredWorkers } from './desired-workers.ts';
export { type EnsemblePlan, type EnsemblePlanOptions, type PlannedStep, planEnsemble } from './ensemble-plan.ts';
export { createEnsembleRun, type EnsembleDecision, type EnsembleEvent, type EnsembleRun } from './ensemble-run.ts';
export {
  type BatchTimes,
  INSTANCE_DEPTH_MAX,
  instanceDepth,
  nextMeanTimes,
} from './instance-depth.ts';
export {
  type BudgetDecision,
  type BudgetEvent,
  createMemoryBudget,
  type DeviceAccount,
  type DeviceBytes,
  type ModelUse,
} from './memory-budget.ts';
export { type ConsideredWorker, choosePlacement, type Placement, type PlacementWorker } from './placement.ts';
export {
  createRateLimiter,
  type LimitedInstance,
  type LimitedKey,
  type RateEvent,
  type RateLimiter,
  type SharedClaim,
} from './rate-limiter.ts';
export type { NeededResource, ResourceCounts } from './rate-resources.ts';
export { createReleaseOrder, type OrderedAnswer, type ReleaseOrder } from './release-order.ts';
export type {
  CloseReason,
  Decision,
  InstanceKey,
  QueuedRequest,
  ScheduleEvent,
  Scheduler,
  SequenceStep,
  SessionClose,
  WaitingLevel,
  WaitingSession,
} from './schedule.ts';
export {
  answersInOrder,
  batchesTogether,
  createScheduler,
  executionKind,
  preservesOrdering,
  type SchedulerOptions,
} from './schedulers.ts';
export { batchShapeKey } from './shape-key.ts';
export { createStepGate, type StepGate } from './step-gate.ts';
export { type WaitingAhead, waitingAhead } from './waiting-ahead.ts';

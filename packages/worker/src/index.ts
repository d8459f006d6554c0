export type { BackendSettings } from './hosted-version.ts';
export type { InstanceLimits } from './instance.ts';
export type { SpawnThread } from './thread-carrier.ts';
export { createWorker, type RateLimitOptions, type Worker, type WorkerOptions } from './worker.ts';

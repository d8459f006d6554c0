export type { BackendSettings } from './hosted-version.ts';
export type { InstanceLimits } from './instance.ts';
export type { SpawnThread } from './thread-carrier.ts';
export { createWorker, type Worker, type WorkerOptions } from './worker.ts';

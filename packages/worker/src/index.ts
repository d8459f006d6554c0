export { hostLaunches } from './host-launches.ts';
export type { BackendSettings } from './hosted-version.ts';
export type { InstanceLimits } from './instance.ts';
export type { OpenModel } from './model-folder.ts';
export type { InstanceLaunch } from './process-line.ts';
export type { SpawnThread } from './thread-line.ts';
export { tryCommand } from './try-command.ts';
export { createWorker, type RateLimitOptions, type Worker, type WorkerOptions } from './worker.ts';

export type { StreamedAnswer, StreamLimits } from './answer-queue.ts';
export { type BytesInFlight, createBytesInFlight } from './bytes-in-flight.ts';
export type { CallOptions } from './call-options.ts';
export { type AnsweredTensors, type Caller, type CallerLimits, type CallerParts, createCaller } from './caller.ts';
export { createLeaving, type LeaveSignal, type Leaving } from './leave-signal.ts';
export { type ModelFound, type ModelLookup, type ModelLookups, versionRefusal } from './model-lookup.ts';
export { type OpenCallerOptions, type OpenedCaller, openCaller } from './open-caller.ts';

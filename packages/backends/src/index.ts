export type {
  Backend,
  BackendInstance,
  BackendLog,
  Batch,
  BatchPlace,
  BatchRequest,
  BatchResult,
  Device,
  InstanceLoad,
  JoinedTensor,
  RequestOutcome,
} from './backend.ts';
export { backendNamed } from './backend-named.ts';
export { type CallAnswer, failedCall, type ModelCalls, type OpenModelCall } from './model-calls.ts';

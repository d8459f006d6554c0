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
export type { CallAnswer, ModelCalls, OpenModelCall } from './model-calls.ts';

export type {
  Backend,
  BackendInstance,
  BackendLog,
  Batch,
  BatchRequest,
  BatchResult,
  Device,
  InstanceLoad,
  JoinedTensor,
  RequestOutcome,
} from './backend.ts';
export { backendNamed } from './backend-named.ts';
